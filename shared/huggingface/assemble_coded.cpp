// Matrices of quantised layers on their way into GGUF's form: made by rows in their own type, with
// the rows of heads, of halves and of recurrent layers in GGUF's order.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "shared/base/thread_pool.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/assemble.h"
#include "shared/huggingface/coded_matrix.h"

namespace holdfast::huggingface {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;

constexpr std::uint64_t kRunRows = 64;             // read at once by one thread
constexpr std::uint64_t kAloneWeights = 1u << 20;  // up to which one thread is enough
constexpr int kThreadsMax = 8;

/// Calls read(run) for each of `runs`, on several threads if there is much to do. Returns the error
/// of the first run that failed.
Result<void> for_each_run(std::uint64_t runs, std::uint64_t weights,
                          const std::function<Result<void>(std::uint64_t run)>& read) {
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = weights <= kAloneWeights ? 1 : std::clamp<int>(processors, 1, kThreadsMax);
  ThreadPool pool(threads);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::uint64_t failed = runs;  // the first of them
  Result<void> result;
  pool.run([&](int) {
    for (std::uint64_t run = next++; run < runs; run = next++) {
      const Result<void> done = read(run);
      if (done) continue;
      next = runs;
      const std::lock_guard lock(mutex);
      if (run < failed) result = done;
      failed = std::min(failed, run);
    }
  });
  return result;
}

Result<void> read_rows(const CodedMatrix& matrix, std::uint64_t first, std::uint64_t n,
                       std::byte* out) {
  const std::uint64_t runs = (n + kRunRows - 1) / kRunRows;
  return for_each_run(runs, n * matrix.form().columns, [&](std::uint64_t run) {
    const std::uint64_t at = run * kRunRows;
    return matrix.read(first + at, std::min(kRunRows, n - at), out + at * matrix.row_bytes());
  });
}

}  // namespace

Result<void> read_all(const CodedMatrix& matrix, std::byte* out) {
  return read_rows(matrix, 0, matrix.form().rows, out);
}

Result<void> Assembler::coded(const SourceTensor& source, TensorInfo info) {
  const Change change = source.named.change;
  if (change == Change::kPermuteQ || change == Change::kPermuteK) {
    return coded_heads(source, std::move(info));
  }
  if (change == Change::kStateRows || change == Change::kStateColumns) {
    return coded_states(source, std::move(info));
  }
  if (change == Change::kFloat32 || change == Change::kVector) {
    return coded_floats(source, std::move(info));
  }
  // Layers that a folder stores as [inputs, outputs] are quantised as [outputs, inputs].
  if (change != Change::kNone && change != Change::kTranspose) {
    return Error{Errc::kUnsupported,
                 invalid(source.name,
                         "is quantised, expected plain floats; leave the layer out of "
                         "the quantisation")
                     .what};
  }
  if (source.named.parts > 1) return coded_part(source, std::move(info));
  const std::uint64_t bytes = info.data.size();
  return add_made(std::move(info), bytes, [matrix = source.stored.coded](std::byte* out) {
    return read_all(*matrix, out);
  });
}

/// Adds a matrix, or one of one row as a vector, in float32.
Result<void> Assembler::coded_floats(const SourceTensor& source, TensorInfo info) {
  const auto matrix = source.stored.coded;
  if (source.named.change == Change::kVector) {
    if (matrix->form().rows != 1) {
      return invalid(source.name, "is " + shape_text(source.stored.shape) + ", expected one row");
    }
    info.n_dims = 1;
  }
  info.type = TensorType::kF32;
  const std::uint64_t bytes = info.elements() * sizeof(float);
  return add_made(std::move(info), bytes, [matrix](std::byte* out) -> Result<void> {
    const MatrixForm& form = matrix->form();
    std::vector<std::byte> row(matrix->row_bytes());
    for (std::uint64_t r = 0; r < form.rows; ++r, out += form.columns * sizeof(float)) {
      HOLDFAST_CHECKED(matrix->read(r, 1, row.data()));
      HOLDFAST_CHECKED(
          gguf::dequantize_row(form.type, row.data(), reinterpret_cast<float*>(out), form.columns));
    }
    return {};
  });
}

/// Adds a matrix with the rows of each head in another order.
Result<void> Assembler::coded_heads(const SourceTensor& source, TensorInfo info) {
  const auto matrix = source.stored.coded;
  HOLDFAST_TRY(const std::uint64_t heads, heads_of(source));
  const std::uint64_t bytes = info.data.size();
  return add_made(std::move(info), bytes, [matrix, heads](std::byte* out) {
    const std::uint64_t rows = matrix->form().rows / heads, head = rows * matrix->row_bytes();
    return for_each_run(heads, matrix->form().rows * matrix->form().columns,
                        [&](std::uint64_t h) -> Result<void> {
                          std::vector<std::byte> plain(head);
                          HOLDFAST_CHECKED(matrix->read(h * rows, rows, plain.data()));
                          permute_rows(plain, rows, 1, out + h * head);
                          return {};
                        });
  });
}

/// Adds the upper or the lower half of the rows.
Result<void> Assembler::coded_part(const SourceTensor& source, TensorInfo info) {
  const auto matrix = source.stored.coded;
  const std::uint64_t parts = source.named.parts;
  if (info.dims[1] % parts != 0) {
    return invalid(source.name, "is " + shape_text(source.stored.shape) +
                                    ", expected the rows of two matrices one above the other");
  }
  info.dims[1] /= parts;
  const std::uint64_t rows = info.dims[1], first = source.named.part * rows;
  const std::uint64_t bytes = info.data.size() / parts;
  return add_made(std::move(info), bytes,
                  [=](std::byte* out) { return read_rows(*matrix, first, rows, out); });
}

/// Adds a matrix with the rows or the columns of a recurrent layer's heads in another order.
Result<void> Assembler::coded_states(const SourceTensor& source, TensorInfo info) {
  const auto matrix = source.stored.coded;
  HOLDFAST_TRY(const StateRows rows, state_rows(source));
  const bool columns = source.named.change == Change::kStateColumns;
  const MatrixForm form = matrix->form();
  const auto unit = gguf::row_bytes(form.type, rows.each);
  if (columns && !unit) {
    return Error{Errc::kUnsupported,
                 invalid(source.name, "has heads of " + std::to_string(rows.each) +
                                          " columns, expected whole blocks of its codes")
                     .what};
  }
  const std::uint64_t bytes = info.data.size();
  return add_made(std::move(info), bytes, [=](std::byte* out) {
    const std::uint64_t row = matrix->row_bytes();
    return for_each_run(form.rows, form.rows * form.columns, [&](std::uint64_t r) -> Result<void> {
      std::byte* to = out + r * row;
      if (!columns) return matrix->read(rows.from(r), 1, to);
      std::vector<std::byte> plain(row);
      HOLDFAST_CHECKED(matrix->read(r, 1, plain.data()));
      for (std::uint64_t c = 0; c < form.columns; c += rows.each) {
        std::memcpy(to + c / rows.each * *unit, plain.data() + rows.from(c) / rows.each * *unit,
                    *unit);
      }
      return {};
    });
  });
}

}  // namespace holdfast::huggingface
