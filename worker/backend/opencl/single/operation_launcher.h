#pragma once
// The operations of a loaded program, each as a few kernels in order.

#include <cstdint>
#include <optional>

#include "worker/backend/opencl/single/device_model.h"
#include "worker/backend/opencl/single/kernel_parameters.h"
#include "worker/backend/opencl/single/step_batch.h"

namespace holdfast::opencl {

/// Enqueues operations for the batch of the running step. Not thread-safe.
class OperationLauncher {
 public:
  /// Both must outlive it.
  OperationLauncher(DeviceModel& model, const StepBatch& batch) : model_(model), batch_(batch) {}
  OperationLauncher(const OperationLauncher&) = delete;
  OperationLauncher& operator=(const OperationLauncher&) = delete;

  /// Begins a step: nothing is known of the rows.
  void begin_step() {
    spread_for_ = -1;
    failure_.reset();
  }
  /// The first product of the step that CLBlast refused.
  const std::optional<Error>& failure() const { return failure_; }
  void run(const DeviceOp& op);

 private:
  /// The destination of a product and its fused epilogue (kernels/epilogue.cl).
  struct Into {
    cl_mem y = nullptr;
    std::int32_t stride = 0;
    std::int32_t columns = 0;  // to be written; 0: all of the matrix
    std::int32_t mode = 0;
    std::int32_t bias_at = -1, second_bias_at = -1;
    float scale = 1, cap = 0;
    bool gate_rows = false;
    std::int32_t next_norm_at = -1;  // y is x, and is spread for this norm
    bool pack_int8 = false;          // only products read y: it is stored as int8 rows
  };
  /// The rows of a product's input.
  struct From {
    cl_mem x = nullptr;
    std::int32_t stride = 0;
    std::int32_t rows = 0;
    std::int32_t share = 1;  // rows of the result for each row of x; above 1 they are expert slots
    bool slots = false;      // each row has its own matrix, by Scratch::expert
    bool spread = false;     // x times the norm's weights; Scratch::squares has the rest
  };
  /// Bias, norm and rotation of an operation's heads, with the RoPE table.
  struct HeadFinish {
    cl_mem table = nullptr;
    FinishParameters parameters = {};
  };
  /// A product's second matrix, in the same launch.
  struct Second {
    const DeviceMatrix* matrix = nullptr;  // null: none
    bool concat = false;                   // its columns follow the first one's; else a pair
  };

  // forward.cpp: one method for each operation.
  void embed(const DeviceOp& op);
  void embed_scale_add(const DeviceOp& op);
  void qkv(const DeviceOp& op);
  void qk_norm(const DeviceOp& op);
  void attend(const DeviceOp& op);
  std::int32_t sides() const;
  void out_or_down(const DeviceOp& op, const Rows& in, bool are_int8_rows);
  const Rows& rows_of_f(const DeviceOp& op) const {
    return op.in_shared_rows ? model_.scratch.s : model_.scratch.f;
  }
  void gate_up(const DeviceOp& op);
  bool gated_products(const DeviceOp& op, const From& from, Into into);
  void logits(const DeviceOp& op);
  void route(const DeviceOp& op);
  void expert_gate_up(const DeviceOp& op);
  void expert_down(const DeviceOp& op);

  // states.cpp
  void norm_delta(const DeviceOp& op);
  void delta(const DeviceOp& op);
  void gate_heads();

  // launch.cpp: one kernel each.
  void look_up(const Product& from, std::int32_t first_row, bool by_position, bool add,
               float scale);
  static bool are_pair(const DeviceMatrix& a, const DeviceMatrix& b);
  const KernelHandle& kernel_of(const DeviceMatrix& m, const Second& second,
                                std::size_t shared) const;
  bool in_tiles(const From& from) const;
  cl_mem gate_of(const Into& into) const;
  // dense.cpp: products by CLBlast.
  void unpack(const DeviceMatrix& m, std::int64_t first, std::int64_t columns);
  void multiply_block(const From& from, std::int64_t row, std::int64_t k, std::int64_t columns);
  void finish_block(const DeviceOp& op, const Product& p, const From& from, const Into& into,
                    const Block& block);
  void dense(const DeviceOp& op, const Product& p, const From& from, const Into& into);

  ProductParameters parameters_of(const DeviceOp& op, const DeviceMatrix& m, const From& from,
                                  const Into& into) const;
  void tiles(const DeviceOp& op, const Product& p, const From& from, const Into& into);
  void product(const DeviceOp& op, const Product& p, const From& from, const Into& into) {
    product(op, p, from, into, Second());
  }
  void product(const DeviceOp& op, const Product& p, const From& from, const Into& into,
               const Second& second);
  std::int32_t record_spans_of(std::int64_t spans) const;
  From normed(const DeviceOp& op, const Rows& x, std::int32_t rows);
  void pack_int8(cl_mem x, std::int32_t stride, std::int32_t rows, std::int64_t n, cl_mem out);
  bool leaves_int8_rows(const DeviceOp& op) const;
  void norm(const DeviceOp& op, cl_mem x, std::int32_t rows, cl_mem out, bool add);
  void norm_heads(std::int32_t first_head, std::int32_t heads, std::int32_t weight_at);
  HeadFinish finish_of(const DeviceOp& op, bool rotate) const;
  HeadParameters heads_of(bool keys_wait) const;
  void finish_heads(const DeviceOp& op, std::int32_t last_head, bool keys_wait);

  DeviceModel& model_;
  const StepBatch& batch_;
  std::optional<Error> failure_;
  std::int32_t spread_for_ = -1;  // the norm that the rows of x are spread for, in h and squares
  // True where rows are int8 rows (kernels/int8_rows.cl): Scratch::h, a, f and e.
  bool h_is_int8_ = false, a_is_int8_ = false, f_is_int8_ = false, e_is_int8_ = false;
};

}  // namespace holdfast::opencl
