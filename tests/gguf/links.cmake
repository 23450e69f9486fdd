# The verbs `synth` and `inspect` are tested here with the formats that they write and read; their
# sources alone, so that these tests need neither daemon nor engine.
if(NOT TARGET holdfast_model_tools)
  add_library(holdfast_model_tools STATIC
    ${CMAKE_SOURCE_DIR}/ops/cli/inspect.cpp ${CMAKE_SOURCE_DIR}/ops/cli/quant_mix.cpp
    ${CMAKE_SOURCE_DIR}/ops/cli/convert.cpp ${CMAKE_SOURCE_DIR}/ops/cli/convert_folder.cpp
    ${CMAKE_SOURCE_DIR}/ops/cli/folder_items.cpp
    ${CMAKE_SOURCE_DIR}/ops/cli/quantize.cpp
    ${CMAKE_SOURCE_DIR}/ops/cli/random_blocks.cpp ${CMAKE_SOURCE_DIR}/ops/cli/synth.cpp
    ${CMAKE_SOURCE_DIR}/ops/cli/synth_family.cpp ${CMAKE_SOURCE_DIR}/ops/cli/synth_tokenizer.cpp)
  target_link_libraries(holdfast_model_tools PUBLIC holdfast_flags holdfast_plan holdfast_text nlohmann_json::nlohmann_json)
endif()
set(libs holdfast_model_tools)
set(timeout_s 120)
