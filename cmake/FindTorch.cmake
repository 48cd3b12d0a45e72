# libtorch for C++ without the rest of CUDA. TORCH_DIR is the `torch` folder of an installed wheel.
# Defines torch::cpu.
set(TORCH_DIR "" CACHE PATH "The torch folder of an installed wheel")
find_library(TORCH_CPU_LIBRARY torch_cpu PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(TORCH_C10_LIBRARY c10 PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH)
if(EXISTS ${TORCH_DIR}/version.py)
  file(STRINGS ${TORCH_DIR}/version.py TORCH_VERSION_LINE REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${TORCH_VERSION_LINE}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Torch REQUIRED_VARS TORCH_CPU_LIBRARY TORCH_C10_LIBRARY
                                  VERSION_VAR TORCH_VERSION)

if(Torch_FOUND AND NOT TARGET torch::cpu)
  # The wheel bundles fmt and pybind11, which would shadow the system's: expose only torch's own.
  set(shim ${PROJECT_SOURCE_DIR}/build/torch_include)
  file(MAKE_DIRECTORY ${shim})
  foreach(part ATen c10 torch)
    file(CREATE_LINK ${TORCH_DIR}/include/${part} ${shim}/${part} SYMBOLIC)
  endforeach()
  add_library(torch::cpu INTERFACE IMPORTED)
  target_include_directories(torch::cpu SYSTEM INTERFACE ${shim} ${shim}/torch/csrc/api/include)
  # at::RecordFunction has another layout without it, and torch's headers assert.
  target_compile_definitions(torch::cpu INTERFACE NDEBUG)
  target_link_options(torch::cpu INTERFACE -Wl,--no-as-needed -Wl,-rpath,${TORCH_DIR}/lib)
  target_link_libraries(torch::cpu INTERFACE ${TORCH_CPU_LIBRARY} ${TORCH_C10_LIBRARY})
endif()
