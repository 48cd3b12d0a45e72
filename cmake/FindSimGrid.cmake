# SimGrid as Debian ships it, without a package file for CMake. Defines simgrid::simgrid.
find_path(SIMGRID_INCLUDE_DIR simgrid/version.h)
find_library(SIMGRID_LIBRARY simgrid)
mark_as_advanced(SIMGRID_INCLUDE_DIR SIMGRID_LIBRARY)
if(SIMGRID_INCLUDE_DIR)
  file(STRINGS ${SIMGRID_INCLUDE_DIR}/simgrid/version.h SIMGRID_VERSION_LINE
       REGEX "define SIMGRID_VERSION_STRING")
  string(REGEX MATCH "[0-9]+\\.[0-9]+(\\.[0-9]+)?" SIMGRID_VERSION "${SIMGRID_VERSION_LINE}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimGrid REQUIRED_VARS SIMGRID_LIBRARY SIMGRID_INCLUDE_DIR
                                  VERSION_VAR SIMGRID_VERSION)

if(SimGrid_FOUND AND NOT TARGET simgrid::simgrid)
  add_library(simgrid::simgrid UNKNOWN IMPORTED)
  set_target_properties(simgrid::simgrid PROPERTIES
    IMPORTED_LOCATION ${SIMGRID_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SIMGRID_INCLUDE_DIR})
endif()
