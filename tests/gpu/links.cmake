set(libs hf_cli hf_engine nlohmann_json::nlohmann_json)
set(more_helpers ${CMAKE_CURRENT_LIST_DIR}/../engine/family_runs.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../engine/reference_model.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../process/house.cpp)
set(timeout_s 600)
