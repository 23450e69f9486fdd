# Each test links what its module needs; static libraries that a test does not use cost nothing.
set(libs holdfast_huggingface holdfast_ingress nlohmann_json::nlohmann_json)
set(more_helpers ${CMAKE_CURRENT_SOURCE_DIR}/wire/made_tokenizer.cpp)
