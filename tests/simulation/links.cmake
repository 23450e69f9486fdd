# The simulator is one library for the tests of this room, compiled as one unit: its sources share
# their headers. Of the daemon's and the worker's links it takes the parts without sockets, so that
# it needs no engine.
if(NOT TARGET hf_simulation)
  file(GLOB simulation_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/lib/*.cpp)
  add_library(hf_simulation STATIC ${simulation_sources}
    ${CMAKE_SOURCE_DIR}/control/link/house.cpp ${CMAKE_SOURCE_DIR}/control/link/commit_points.cpp
    ${CMAKE_SOURCE_DIR}/control/link/objects.cpp ${CMAKE_SOURCE_DIR}/control/link/object_use.cpp
    ${CMAKE_SOURCE_DIR}/control/link/prefix_root.cpp
    ${CMAKE_SOURCE_DIR}/worker/link/work_table.cpp)
  set_target_properties(hf_simulation PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(hf_simulation PUBLIC hf_store hf_wire PkgConfig::SQLITE)
endif()
set(libs hf_simulation)
set(timeout_s 600)
