#include "worker/model/take.h"

namespace holdfast::model {

namespace {

std::string dims_text(const gguf::TensorInfo& t) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < t.n_dims; ++i) {
    out += (i > 0 ? "," : "") + std::to_string(t.dims[i]);
  }
  return out + "]";
}

bool is(std::uint64_t have, std::int64_t want) {
  return want > 0 && have == static_cast<std::uint64_t>(want);
}

}  // namespace

std::string Taker::where(const std::string& name) const {
  return "build program " + std::string(file_.name()) + ": tensor " + name + " ";
}

Error Taker::missing(const std::string& name) const {
  return {Errc::kFileInvalid, where(name) + "is missing"};
}

Error Taker::wrong_shape(const gguf::TensorInfo& t, const std::string& expected) const {
  return {Errc::kFileInvalid,
          where(t.name) + "has shape " + dims_text(t) + "; expected " + expected};
}

Result<void> Taker::check_plain(const gguf::TensorInfo& t) const {
  const auto traits = gguf::type_traits(t.type);
  if (traits && traits->block_elements == 1) return {};
  return Error{Errc::kUnsupported, where(t.name) + "is a vector of blocks; convert it to F32"};
}

Result<WeightRef> Taker::matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                                std::int64_t matrices) {
  const gguf::TensorInfo* t = file_.tensor(name);
  if (t == nullptr) return missing(name);
  if (!is(t->dims[0], cols) || !is(t->dims[1], rows) || !is(t->dims[2], matrices) ||
      t->dims[3] != 1) {
    const std::string more = matrices > 1 ? "," + std::to_string(matrices) : "";
    return wrong_shape(*t, "[" + std::to_string(cols) + "," + std::to_string(rows) + more + "]");
  }
  taken_.insert(name);
  return WeightRef{t, rows * matrices, cols, 0, matrices};
}

Result<WeightRef> Taker::matrix_part(const std::string& name, std::int64_t rows, std::int64_t cols,
                                     std::int64_t first, std::int64_t n) {
  HOLDFAST_TRY(WeightRef whole, matrix(name, rows, cols));
  CHECK(first >= 0 && n > 0 && first + n <= rows);
  whole.first_row = first;
  whole.rows = n;
  return whole;
}

Result<WeightRef> Taker::vector(const std::string& name, std::int64_t n, bool optional) {
  if (optional && file_.tensor(name) == nullptr) return WeightRef{};
  return vector_part(name, n, 0, n);
}

Result<WeightRef> Taker::vectors(const std::string& name, std::int64_t n, std::int64_t matrices) {
  const gguf::TensorInfo* t = file_.tensor(name);
  if (t == nullptr) return missing(name);
  if (!is(t->dims[0], n) || !is(t->dims[1], matrices) || t->elements() != t->dims[0] * t->dims[1]) {
    return wrong_shape(*t, "[" + std::to_string(n) + "," + std::to_string(matrices) + "]");
  }
  HOLDFAST_CHECKED(check_plain(*t));
  taken_.insert(name);
  return WeightRef{t, n * matrices, 1, 0, matrices};
}

Result<WeightRef> Taker::vector_part(const std::string& name, std::int64_t n, std::int64_t first,
                                     std::int64_t part) {
  const gguf::TensorInfo* t = file_.tensor(name);
  if (t == nullptr) return missing(name);
  CHECK(first >= 0 && part > 0 && first + part <= n);
  if (!is(t->dims[0], n) || t->elements() != t->dims[0]) {
    return wrong_shape(*t, "[" + std::to_string(n) + "]");
  }
  HOLDFAST_CHECKED(check_plain(*t));
  taken_.insert(name);
  // One column a row, so that a part is a run of rows.
  return WeightRef{t, part, 1, first};
}

Result<void> Taker::all_taken(const plan::ModelShape& shape) const {
  for (const gguf::TensorInfo& t : file_.tensors()) {
    if (taken_.count(t.name) > 0 || plan::is_left_out(t.name, shape)) continue;
    return Error{Errc::kUnsupported,
                 where(t.name) + dims_text(t) + " is no part of this architecture as we know it"};
  }
  return {};
}

}  // namespace holdfast::model
