include(${CMAKE_CURRENT_LIST_DIR}/../gguf/links.cmake)  # hf_model_tools: `synth`, `convert`
set(libs hf_model_tools hf_engine nlohmann_json::nlohmann_json)
set(timeout_s 120)
