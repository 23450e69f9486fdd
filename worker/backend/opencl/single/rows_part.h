#pragma once
// One device's part of a program in tensor parallelism: a run of output rows of every large matrix.
// One device computes an output row whole, in the order of a single device, so bits do not change.

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

/// The columns, of `all`, of device `i` of `n`: whole panels of 16, except the last one.
Columns share_columns(std::int64_t all, int i, int n);

/// One device's query heads and the KV heads that they read; together the devices have all heads.
struct HeadShare {
  std::int64_t first = 0, heads = 0;
  std::int64_t first_kv = 0, kv_heads = 0;
  bool whole = false;  // every device has all heads, because they cannot be divided
};
/// The heads of device `i` of `n`. With at least one KV head for each device they are divided. With
/// fewer, as many devices hold a KV head as share its queries, if that comes out even. Else, and
/// where a norm goes over all heads of a token, every device computes all of attention.
HeadShare share_heads(const plan::ModelShape& shape, int i, int n);

/// One device's part of a program.
struct RowsPart {
  model::Program program;        // its shape has this device's heads and kv_heads
  std::vector<Columns> columns;  // of each operation; n = 0: the whole result, on every device
  std::int64_t all_heads = 0;
  bool whole_heads = false;
};

/// The part of device `i` of `n`. kUsage: the model is too small for so many devices.
Result<RowsPart> rows_part(const model::Program& program, int i, int n);

}  // namespace holdfast::opencl
