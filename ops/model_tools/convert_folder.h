#pragma once
// The half of `convert` that writes a folder.

#include "ops/model_tools/convert.h"
#include "shared/gguf/gguf.h"

namespace holdfast::cli {

/// Writes the model of `file` to the folder `call.out`. Arguments and errors as of convert_model;
/// kUnsupported also for a family that has no form as a folder.
Result<Converted> write_folder(const ConvertCall& call, const gguf::File& file,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                               const std::function<Result<void>()>& interrupted);

}  // namespace holdfast::cli
