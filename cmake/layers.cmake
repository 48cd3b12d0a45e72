# One library per layer. The link list of a layer is its permission to include: headers of other
# parts are found only through the targets named here, so a missing arrow is a build error in the
# architecture test (tests/tidy_test), and a layer that links no torch cannot include it.
option(REHEARSE_ASAN "Address and undefined-behaviour sanitizers" OFF)
option(REHEARSE_COVERAGE "Coverage counters for gcov" OFF)

find_program(REHEARSE_CCACHE ccache)
if(REHEARSE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${REHEARSE_CCACHE})
endif()
find_program(REHEARSE_MOLD mold)
if(REHEARSE_MOLD)
  add_link_options($<$<COMPILE_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()

add_library(rehearse_flags INTERFACE)
# g++ 12 warns of overlapping copies in any `"literal" + string` (its bug 105651), and of unset parts
# of variants that are copied.
target_compile_options(rehearse_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wno-restrict;-Wno-maybe-uninitialized;-ffp-contract=off>")
target_include_directories(rehearse_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(REHEARSE_ASAN)
  target_compile_options(rehearse_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(rehearse_flags INTERFACE -fsanitize=address,undefined)
endif()
if(REHEARSE_COVERAGE)
  target_compile_options(rehearse_flags INTERFACE --coverage)
  target_link_options(rehearse_flags INTERFACE --coverage)
endif()

# rehearse_layer(NAME SOURCES a.cpp b.cpp LINK rehearse_base SYSTEM fmt::fmt)
function(rehearse_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;LINK;SYSTEM" ${ARGN})
  if(LAYER_SOURCES)
    add_library(${name} STATIC ${LAYER_SOURCES})
    set(kind PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(kind INTERFACE)
  endif()
  target_link_libraries(${name} ${kind} rehearse_flags ${LAYER_LINK} ${LAYER_SYSTEM})
endfunction()

# rehearse_test(NAME SOURCES a_test.cpp LINK rehearse_base): a GoogleTest program, one ctest entry a
# program; LABELS go to ctest.
function(rehearse_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE rehearse_flags ${TEST_LINK} GTest::gtest GTest::gtest_main rapidcheck rapidcheck_gtest)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}")
endfunction()
