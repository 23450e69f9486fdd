include(${CMAKE_CURRENT_LIST_DIR}/../gguf/links.cmake)  # hf_model_tools: `synth`
set(libs hf_model_tools hf_engine nlohmann_json::nlohmann_json)
set(more_helpers ${CMAKE_CURRENT_LIST_DIR}/../engine/family_runs.cpp
                 ${CMAKE_CURRENT_LIST_DIR}/../engine/reference_model.cpp)
set(timeout_s 600)
