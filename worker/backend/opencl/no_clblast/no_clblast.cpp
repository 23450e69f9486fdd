// Stands in for worker/backend/opencl/clblast where the build found no headers of CLBlast.

#include "worker/backend/api/opencl.h"
#include "worker/backend/opencl/clblast/dense_products.h"

namespace holdfast::opencl {
namespace {

Error not_built() {
  return {Errc::kUnsupported,
          "open CLBlast: it is not built into this program; build where the package libclblast-dev "
          "is"};
}

}  // namespace

Result<std::string> clblast_version() {
  return not_built();
}

Result<DenseProducts> DenseProducts::open(cl_command_queue) {
  return not_built();
}

Result<void> DenseProducts::multiply(const DenseMatrix&, const DenseMatrix&, const DenseMatrix&) {
  return not_built();
}

Result<void> DenseProducts::multiply_add(const DenseMatrix&, const DenseMatrix&,
                                         const DenseMatrix&) {
  return not_built();
}

Result<std::uint64_t> DenseProducts::temporary_bytes(const DenseMatrix&, const DenseMatrix&,
                                                     const DenseMatrix&) const {
  return not_built();
}

}  // namespace holdfast::opencl
