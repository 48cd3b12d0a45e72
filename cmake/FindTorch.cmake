# libtorch for C++ without the rest of CUDA. TORCH_DIR is the `torch` folder of an installed wheel;
# by default the one that set-up put into .venv. Defines torch::cpu.
#
# The wheel's own package file is not used: it demands the CUDA toolkit, and changes global flags.
if(NOT TORCH_DIR)
  file(GLOB found ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(POP_FRONT found first)
  set(TORCH_DIR "${first}" CACHE PATH "The torch folder of an installed wheel" FORCE)
endif()
# Looked up anew each time, so that a build folder follows when TORCH_DIR changes.
unset(TORCH_CPU_LIBRARY CACHE)
unset(TORCH_C10_LIBRARY CACHE)
find_library(TORCH_CPU_LIBRARY torch_cpu PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(TORCH_C10_LIBRARY c10 PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
mark_as_advanced(TORCH_CPU_LIBRARY TORCH_C10_LIBRARY)
if(EXISTS ${TORCH_DIR}/version.py)
  file(STRINGS ${TORCH_DIR}/version.py TORCH_VERSION_LINE REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${TORCH_VERSION_LINE}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Torch REQUIRED_VARS TORCH_DIR TORCH_CPU_LIBRARY TORCH_C10_LIBRARY VERSION_VAR TORCH_VERSION
  REASON_FAILURE_MESSAGE "run ./rehearse build, which installs it, or give -DTORCH_DIR=.../torch")

if(Torch_FOUND AND NOT TARGET torch::cpu)
  # The wheel bundles fmt and pybind11, which would shadow the system's: expose only torch's own.
  # One place for all build folders, so that ccache sees one command. A link that is right stays
  # as it is: another build folder may be compiling through it.
  set(shim ${PROJECT_SOURCE_DIR}/build/torch_include)
  file(MAKE_DIRECTORY ${shim})
  foreach(part ATen c10 torch)
    set(target "")
    if(IS_SYMLINK ${shim}/${part})
      file(READ_SYMLINK ${shim}/${part} target)
    endif()
    if(NOT target STREQUAL ${TORCH_DIR}/include/${part})
      file(CREATE_LINK ${TORCH_DIR}/include/${part} ${shim}/${part} SYMBOLIC)
    endif()
  endforeach()
  add_library(torch::cpu INTERFACE IMPORTED)
  target_include_directories(torch::cpu SYSTEM INTERFACE ${shim} ${shim}/torch/csrc/api/include)
  # at::RecordFunction has another layout without it, and torch's headers assert.
  target_compile_definitions(torch::cpu INTERFACE NDEBUG)
  target_link_options(torch::cpu INTERFACE -Wl,--no-as-needed -Wl,-rpath,${TORCH_DIR}/lib)
  target_link_libraries(torch::cpu INTERFACE ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})
endif()
