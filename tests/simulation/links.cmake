# The simulator is one library for the tests of this folder, compiled as one unit: its sources share
# their headers. Of the daemon's and the worker's links it takes the parts without sockets, so that
# it needs no engine. planted_test is linked with copies of the same sources that have bugs in them
# (bugs/README.md).
if(NOT TARGET holdfast_simulation)
  set(planted_dir ${CMAKE_BINARY_DIR}/generated/planted)
  set(bugs ${CMAKE_CURRENT_LIST_DIR}/bugs)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${bugs}/plant ${CMAKE_SOURCE_DIR} ${planted_dir}
                  OUTPUT_VARIABLE planted_paths COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" planted_paths "${planted_paths}")
  list(TRANSFORM planted_paths PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE edited_sources)
  file(GLOB bug_files CONFIGURE_DEPENDS ${bugs}/*.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${bugs}/plant ${bug_files} ${edited_sources})

  file(GLOB simulation_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/lib/*.cpp)
  add_library(holdfast_simulation STATIC ${simulation_sources})
  set_target_properties(holdfast_simulation PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_include_directories(holdfast_simulation PUBLIC ${planted_dir})
  target_link_libraries(holdfast_simulation PUBLIC holdfast_source_tree holdfast_wire PkgConfig::SQLITE PkgConfig::SODIUM)

  set(link_sources control/daemon/commit_loop.cpp control/daemon/commit_points.cpp control/objects/objects.cpp
    control/objects/object_use.cpp control/objects/pulls.cpp control/daemon/prefix_root.cpp
    control/daemon/held_answers.cpp control/endpoints/node_watch.cpp control/replication/change_list.cpp control/replication/copied_files.cpp
    control/replication/copy_receiver.cpp control/replication/follower.cpp control/replication/primary.cpp
    control/replication/record.cpp control/replication/role_rules.cpp control/replication/shipping_disk.cpp
    control/replication/standby_note.cpp control/replication/state_files.cpp worker/link/work_table.cpp)
  list(TRANSFORM link_sources PREPEND ${CMAKE_SOURCE_DIR}/)
  add_library(holdfast_simulated STATIC ${link_sources})
  set_target_properties(holdfast_simulated PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(holdfast_simulated PUBLIC holdfast_store holdfast_pull PRIVATE holdfast_source_tree)

  file(GLOB planted_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/control/core/*.cpp
    ${CMAKE_SOURCE_DIR}/control/store/*.cpp)
  list(APPEND planted_sources ${link_sources})
  list(REMOVE_ITEM planted_sources ${edited_sources})
  list(TRANSFORM planted_paths PREPEND ${planted_dir}/)
  list(APPEND planted_sources ${planted_paths})
  add_library(holdfast_planted STATIC ${planted_sources})
  target_include_directories(holdfast_planted PRIVATE ${planted_dir})
  target_link_libraries(holdfast_planted PUBLIC holdfast_wire holdfast_sampling holdfast_pull PkgConfig::SQLITE PkgConfig::SODIUM
                        PRIVATE holdfast_source_tree)
  holdfast_unity(holdfast_planted ${planted_sources})
endif()
set(libs holdfast_simulation holdfast_simulated)
set(simulation_planted_test_libs holdfast_simulation holdfast_planted)
set(timeout_s 600)
