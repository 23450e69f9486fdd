# find_package(Holdfast): the target Holdfast::holdfast, the C library.
get_filename_component(holdfast_prefix "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
find_library(HOLDFAST_LIBRARY holdfast PATHS "${holdfast_prefix}/.." NO_DEFAULT_PATH)
find_path(HOLDFAST_INCLUDE_DIR holdfast.h PATHS "${holdfast_prefix}/../../include" "${holdfast_prefix}/../../../include"
  NO_DEFAULT_PATH)
if(NOT HOLDFAST_LIBRARY OR NOT HOLDFAST_INCLUDE_DIR)
  set(Holdfast_FOUND FALSE)
  return()
endif()
if(NOT TARGET Holdfast::holdfast)
  add_library(Holdfast::holdfast SHARED IMPORTED)
  set_target_properties(Holdfast::holdfast PROPERTIES IMPORTED_LOCATION "${HOLDFAST_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${HOLDFAST_INCLUDE_DIR}")
endif()
