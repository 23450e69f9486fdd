# Each test links what its room needs; static libraries that a test does not use cost nothing.
set(libs hf_hf hf_ingress nlohmann_json::nlohmann_json)
set(more_helpers ${CMAKE_CURRENT_SOURCE_DIR}/wire/made_tokenizer.cpp)
