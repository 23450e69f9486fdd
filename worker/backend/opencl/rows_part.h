#pragma once
// What a device of a split by rows has of a program: a run of output rows of every large matrix. An
// output row is computed whole by one device, in the order of one device, so bits do not change.

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "worker/model/program.h"

namespace holdfast::opencl {

/// A run of columns of an operation's result.
struct Columns {
  std::int64_t first = 0;
  std::int64_t n = 0;
};

/// Device `i` of `n` has these of `all` columns: whole panels of 16, but for the last one.
Columns share_columns(std::int64_t all, int i, int n);

/// Query heads and the KV heads that they read. Of one device; together they have all of them.
struct HeadShare {
  std::int64_t first = 0, heads = 0;
  std::int64_t first_kv = 0, kv_heads = 0;
  bool whole = false;  // every device has all heads: they cannot be divided
};
/// With a KV head or more for each device they are divided. With fewer, a KV head is held by as
/// many devices as share its queries, if that comes out even. Else, and where a norm goes over all
/// heads of a token, every device computes all of attention.
HeadShare share_heads(const plan::ModelShape& shape, int i, int n);

struct RowsPart {
  model::Program program;        // heads and kv_heads of its shape are this device's
  std::vector<Columns> columns;  // of each operation; n = 0: the whole result, on every device
  std::int64_t all_heads = 0;
  bool whole_heads = false;
};

/// kUsage: the model is too small to be divided so often.
Result<RowsPart> rows_part(const model::Program& program, int i, int n);

}  // namespace holdfast::opencl
