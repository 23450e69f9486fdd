#include "worker/backend/opencl/clblast/dense_products.h"

#include "worker/backend/opencl/clblast/library.h"

namespace holdfast::opencl {
namespace {

struct StatusName {
  int status;
  const char* name;
};
#define HOLDFAST_CLBLAST_STATUS(name) \
  { name, #name }
/// CLBlast's own statuses; its others are OpenCL's.
constexpr StatusName kStatusNames[] = {
    HOLDFAST_CLBLAST_STATUS(CLBlastNotImplemented),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidMatrixA),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidMatrixB),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidMatrixC),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidDimension),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidLeadDimA),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidLeadDimB),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidLeadDimC),
    HOLDFAST_CLBLAST_STATUS(CLBlastInsufficientMemoryA),
    HOLDFAST_CLBLAST_STATUS(CLBlastInsufficientMemoryB),
    HOLDFAST_CLBLAST_STATUS(CLBlastInsufficientMemoryC),
    HOLDFAST_CLBLAST_STATUS(CLBlastInsufficientMemoryTemp),
    HOLDFAST_CLBLAST_STATUS(CLBlastInvalidLocalMemUsage),
    HOLDFAST_CLBLAST_STATUS(CLBlastDatabaseError),
    HOLDFAST_CLBLAST_STATUS(CLBlastUnknownError),
    HOLDFAST_CLBLAST_STATUS(CLBlastUnexpectedError),
};
#undef HOLDFAST_CLBLAST_STATUS

std::string name_of(CLBlastStatusCode status) {
  for (const StatusName& entry : kStatusNames) {
    if (entry.status == status) {
      return std::string(entry.name) + " (" + std::to_string(status) + ")";
    }
  }
  return status_text(static_cast<cl_int>(status));
}

Errc code_of(CLBlastStatusCode status) {
  const bool memory = status == CLBlastTempBufferAllocFailure ||
                      status == CLBlastOpenCLOutOfResources ||
                      status == CLBlastOpenCLOutOfHostMemory;
  return memory ? Errc::kMemoryExhausted : Errc::kModelFailed;
}

std::int64_t rows_of(const DenseMatrix& m) {
  return m.transposed ? m.columns : m.rows;
}
std::int64_t columns_of(const DenseMatrix& m) {
  return m.transposed ? m.rows : m.columns;
}

std::string shape_text(const DenseMatrix& m) {
  return std::to_string(m.rows) + " x " + std::to_string(m.columns) +
         (m.transposed ? " transposed" : "");
}

/// A refusal of a matrix that says what was expected of it.
Error refused_matrix(const char* name, const DenseMatrix& m, const std::string& expected) {
  return {Errc::kUsage, std::string("multiply dense matrices: ") + name + " is " + shape_text(m) +
                            ", " + std::to_string(m.stride) +
                            " floats from row to row, from float " + std::to_string(m.at) +
                            " on; expected " + expected};
}

/// Checks that a matrix has elements, whatever its buffer.
Result<void> check_elements(const char* name, const DenseMatrix& m) {
  if (m.rows < 1 || m.columns < 1 || m.at < 0) {
    return refused_matrix(name, m, "one element at least");
  }
  if (m.stride < m.columns) return refused_matrix(name, m, "rows that do not overlap");
  return {};
}

/// Checks that its buffer holds all of them.
Result<void> check_buffer(const char* name, const DenseMatrix& m) {
  if (m.buffer == nullptr || m.buffer->get() == nullptr) {
    return refused_matrix(name, m, "a buffer");
  }
  const auto floats = static_cast<std::int64_t>(m.buffer->bytes() / sizeof(float));
  // The floats before the last row must leave those of one row.
  const bool fits = m.columns <= floats && m.at <= floats - m.columns &&
                    m.rows - 1 <= (floats - m.columns - m.at) / m.stride;
  if (fits) return {};
  return refused_matrix(name, m,
                        "what fits in its buffer of " + std::to_string(floats) + " floats");
}

Result<void> check_shapes(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c) {
  HOLDFAST_CHECKED(check_elements("a", a));
  HOLDFAST_CHECKED(check_elements("b", b));
  HOLDFAST_CHECKED(check_elements("c", c));
  const bool fits = columns_of(a) == rows_of(b) && c.rows == rows_of(a) &&
                    c.columns == columns_of(b) && !c.transposed;
  if (fits) return {};
  return Error{Errc::kUsage, "multiply dense matrices: " + shape_text(a) + " by " + shape_text(b) +
                                 " into " + shape_text(c) + "; expected " +
                                 std::to_string(rows_of(a)) + " x " +
                                 std::to_string(columns_of(b)) + " of " +
                                 std::to_string(columns_of(a)) + " terms each"};
}

/// The sizes of a product, as CLBlast's functions take them.
struct Sizes {
  Sizes(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c)
      : a_transpose(a.transposed ? CLBlastTransposeYes : CLBlastTransposeNo),
        b_transpose(b.transposed ? CLBlastTransposeYes : CLBlastTransposeNo),
        m(static_cast<std::size_t>(c.rows)),
        n(static_cast<std::size_t>(c.columns)),
        k(static_cast<std::size_t>(columns_of(a))),
        a_at(static_cast<std::size_t>(a.at)),
        a_stride(static_cast<std::size_t>(a.stride)),
        b_at(static_cast<std::size_t>(b.at)),
        b_stride(static_cast<std::size_t>(b.stride)),
        c_at(static_cast<std::size_t>(c.at)),
        c_stride(static_cast<std::size_t>(c.stride)) {}
  CLBlastTranspose a_transpose, b_transpose;
  std::size_t m, n, k, a_at, a_stride, b_at, b_stride, c_at, c_stride;
};

Result<void> checked(CLBlastStatusCode status, const DenseMatrix& a, const DenseMatrix& b) {
  if (status == CLBlastSuccess) return {};
  return Error{code_of(status), "multiply dense matrices by CLBlast: " + shape_text(a) + " by " +
                                    shape_text(b) + ": " + name_of(status)};
}

}  // namespace

Result<DenseProducts> DenseProducts::open(cl_command_queue queue) {
  HOLDFAST_TRY(const Clblast* library, system_clblast());
  return DenseProducts(queue, library->version);
}

Result<void> DenseProducts::run(const DenseMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                                float beta) {
  HOLDFAST_CHECKED(check_shapes(a, b, c));
  HOLDFAST_CHECKED(check_buffer("a", a));
  HOLDFAST_CHECKED(check_buffer("b", b));
  HOLDFAST_CHECKED(check_buffer("c", c));
  HOLDFAST_TRY(const Clblast* library, system_clblast());
  const Sizes s(a, b, c);
  return checked(
      library->multiply(CLBlastLayoutRowMajor, s.a_transpose, s.b_transpose, s.m, s.n, s.k, 1.0f,
                        a.buffer->get(), s.a_at, s.a_stride, b.buffer->get(), s.b_at, s.b_stride,
                        beta, c.buffer->get(), s.c_at, s.c_stride, &queue_, nullptr, temporary_),
      a, b);
}

Result<void> DenseProducts::multiply(const DenseMatrix& a, const DenseMatrix& b,
                                     const DenseMatrix& c) {
  return run(a, b, c, 0.0f);
}

Result<void> DenseProducts::multiply_add(const DenseMatrix& a, const DenseMatrix& b,
                                         const DenseMatrix& c) {
  return run(a, b, c, 1.0f);
}

Result<std::uint64_t> DenseProducts::temporary_bytes(const DenseMatrix& a, const DenseMatrix& b,
                                                     const DenseMatrix& c) const {
  HOLDFAST_CHECKED(check_shapes(a, b, c));
  HOLDFAST_TRY(const Clblast* library, system_clblast());
  const Sizes s(a, b, c);
  cl_command_queue queue = queue_;
  std::size_t bytes = 0;
  HOLDFAST_CHECKED(
      checked(library->temporary_bytes(CLBlastLayoutRowMajor, s.a_transpose, s.b_transpose, s.m,
                                       s.n, s.k, s.a_at, s.a_stride, s.b_at, s.b_stride, s.c_at,
                                       s.c_stride, &queue, &bytes),
              a, b));
  return std::uint64_t{bytes};
}

}  // namespace holdfast::opencl
