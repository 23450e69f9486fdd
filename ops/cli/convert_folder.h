#pragma once
// The half of `convert` that writes a folder.

#include "ops/cli/convert.h"
#include "shared/gguf/gguf.h"

namespace holdfast::cli {

Result<Converted> write_folder(const ConvertCall& call, const gguf::File& file,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                               const std::function<Result<void>()>& interrupted);

}  // namespace holdfast::cli
