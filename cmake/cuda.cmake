# The CUDA language, for builds that ask for it (preset `cuda`). Nothing else in the project may
# depend on a CUDA toolkit being installed.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(REHEARSE_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT REHEARSE_NVCC)
    message(FATAL_ERROR "REHEARSE_CUDA needs nvcc, which is neither in PATH nor in "
                        "/usr/local/cuda/bin: install the CUDA toolkit, or use another preset")
  endif()
  set(CMAKE_CUDA_COMPILER ${REHEARSE_NVCC})
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)  # must stand before the language is enabled
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures to compile for")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)
