#pragma once
// `holdfast convert` without the command line around it: a model folder into a GGUF file and back.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The arguments of a conversion; `in` decides the direction.
struct ConvertCall {
  std::string in;   // a folder (config.json, *.safetensors, tokenizer.json) or a GGUF file
  std::string out;  // from a folder the GGUF file, from a file the folder
  std::uint64_t part_bytes = 4'900'000'000;  // the most in one *.safetensors file
};

/// The result of a conversion, for the report.
struct Converted {
  bool to_folder = false;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  // of weights written
  std::vector<std::string> warnings;
};

/// Writes `out` atomically: a file is replaced whole; a folder must not exist yet and appears when
/// it is complete. Quantised weights become F32 in a folder. progress and interrupted as in
/// quantize_file. Errors: those of reading `in`; kUnsupported for what the other form cannot
/// express; kConflict (the folder exists); kIo, kDiskFull.
Result<Converted> convert_model(const ConvertCall& call,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const std::function<Result<void>()>& interrupted = {});

}  // namespace holdfast::cli
