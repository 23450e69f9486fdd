#pragma once
// Tiny random models of every architecture, run on a backend for the tests of families.

#include <memory>
#include <string>
#include <vector>

#include "worker/backend/api/load.h"

namespace holdfast {

/// A model of `holdfast synth --arch`, opened; its file is gone from the disk at once.
struct FamilyModel {
  std::shared_ptr<const gguf::File> file;
  model::Program program;
  std::vector<std::int32_t> tokens;
  std::int64_t width() const { return program.shape.width; }
  std::size_t columns() const;  // of a result row: logits, or the width of an encoder
};
FamilyModel make_family(const std::string& architecture, std::uint64_t seed, std::int32_t n_tokens,
                        const std::string& type = "f32", const std::string& scaling = "");
/// The same from a file's bytes.
FamilyModel family_of(std::shared_ptr<const gguf::File> file, std::int32_t n_tokens);

struct RunOptions {
  std::string device = "cpu";
  std::string cache_dir;  // of built kernels
  std::string kernels;
  int threads = 1;
  std::int32_t chunk = 0;  // 0 = all at once
  std::string kv = "f32";
  std::int64_t context = 0;    // 0 = enough for the tokens
  bool neighbour = false;      // another sequence in front of each chunk
  bool prefill_heavy = false;  // backend::Segment
  bool neighbour_prefill_heavy = false;
  bool sparse_logits = false;  // logits of some tokens only (wants_row)
};
backend::LoadOptions load_options(const FamilyModel& m, const RunOptions& options);
/// True if the logits of token `i` of `m` are requested. With sparse_logits these are none, the
/// last one and the last two of a chunk, in turn, and the last one of all; an encoder's one in the
/// middle.
bool wants_row(const FamilyModel& m, const RunOptions& options, std::int32_t i);
/// True if the rows that `options` request have the same bits in both.
bool same_requested_rows(const FamilyModel& m, const RunOptions& options,
                         const std::vector<float>& have, const std::vector<float>& want);
/// Logits of every token (zeros where none are requested), or an encoder's vectors. The executor
/// has load_options' limits.
std::vector<float> run_on(backend::Executor& executor, const FamilyModel& m,
                          const RunOptions& options);
/// The same on an executor of its own.
std::vector<float> run_family(const FamilyModel& m, const RunOptions& options);

/// An architecture in the name of a test, which has letters, digits and underscores.
std::string test_name(std::string architecture);

}  // namespace holdfast
