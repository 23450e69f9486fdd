#pragma once
// `holdfast quantize` without the command line around it: a model file into a smaller one.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::cli {

/// The arguments of a quantisation. Threads change its time, not its bytes.
struct QuantizeCall {
  std::string in;
  std::string out;
  std::string type;  // a name of quant_mix.h
  std::int32_t threads = 1;
};

/// The result of a quantisation, for the report.
struct Quantized {
  std::string type;  // as users know it: "Q4_K_M"
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t weights = 0;                     // in all tensors
  std::map<std::string, std::uint64_t> tensors;  // how many of each type
  std::vector<std::string> warnings;             // fallbacks, a source that is quantised already
};

/// Writes `out` atomically: neither a reader nor an older file at `out` ever sees half a file. The
/// bytes do not depend on `threads`. progress(done, total) may be empty; `interrupted` is called
/// now and then and ends the work with its error. kUsage (unknown type, parts of a split model),
/// kIo, kFileInvalid, kUnsupported, kDiskFull.
Result<Quantized> quantize_file(const QuantizeCall& call,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const std::function<Result<void>()>& interrupted = {});

}  // namespace holdfast::cli
