set(libs holdfast_cli holdfast_engine nlohmann_json::nlohmann_json)
set(more_helpers ${CMAKE_CURRENT_LIST_DIR}/../engine/family_runs.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../engine/reference_gemma4.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../engine/reference_model.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../process/test_server.cpp)
set(timeout_s 600)
if(HOLDFAST_OPENCL AND HOLDFAST_OPENCL_HEADERS)
  # A layer that makes a device fail, loaded by processes that the tests start.
  add_library(gpu_failing_layer MODULE ${CMAKE_CURRENT_LIST_DIR}/failing/layer.cpp)
  target_include_directories(gpu_failing_layer PRIVATE ${CMAKE_SOURCE_DIR} ${HOLDFAST_OPENCL_HEADERS})
  cmake_language(DEFER CALL add_dependencies gpu_test gpu_failing_layer holdfast_device_times)
endif()
