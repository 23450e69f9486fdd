include(${CMAKE_CURRENT_LIST_DIR}/../gguf/links.cmake)  # holdfast_model_tools: `synth`, `convert`
set(libs holdfast_model_tools holdfast_engine nlohmann_json::nlohmann_json)
set(timeout_s 120)
