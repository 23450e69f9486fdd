set(libs holdfast_wire nlohmann_json::nlohmann_json)
set(timeout_s 600)
# The wire between two machines (tests/cluster/wire.h) as a program, so that it can be killed.
add_executable(holdfast-test-wire ${CMAKE_CURRENT_LIST_DIR}/program/main.cpp
  ${CMAKE_CURRENT_LIST_DIR}/wire.cpp ${CMAKE_CURRENT_LIST_DIR}/devices.cpp)
target_link_libraries(holdfast-test-wire PRIVATE holdfast_base holdfast_source_tree)
cmake_language(DEFER CALL add_dependencies cluster_test holdfast-test-wire)
