# Each test links what its room needs; static libraries that a test does not use cost nothing.
set(libs hf_hf nlohmann_json::nlohmann_json)
