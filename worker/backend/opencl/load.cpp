// Program to executor: weights are placed, all sizes added up and compared with what the device has
// free, and only then is anything taken, built and uploaded.

#include "worker/backend/opencl/load.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "worker/backend/opencl/executor.h"
#include "worker/backend/opencl/limits.h"
#include "worker/backend/opencl/probe.h"
#include "worker/backend/opencl/sources.h"

namespace holdfast::opencl {

using cpu::round_up;
using model::Op;
using model::OpKind;
using model::WeightRef;

namespace {

Error refuse(Errc code, const std::string& cause) {
  return {code, "load opencl: " + cause};
}

std::optional<cpu::KvType> kv_type_of(std::string_view name) {
  if (name == "f32") return cpu::KvType::kF32;
  if (name == "f16") return cpu::KvType::kF16;
  if (name == "bf16") return cpu::KvType::kBF16;
  if (name == "int8") return cpu::KvType::kInt8;
  return std::nullopt;
}

cpu::Activate activate_of(plan::Activation activation) {
  return activation == plan::Activation::kSilu       ? cpu::Activate::kSilu
         : activation == plan::Activation::kGeluTanh ? cpu::Activate::kGeluTanh
                                                     : cpu::Activate::kGeluErf;
}

Result<void> check_options(const model::Program& program, const backend::LoadOptions& options) {
  const backend::Limits& l = options.limits;
  if (l.context <= 0 || l.context > INT32_MAX || l.pages <= 0 || l.batch_tokens <= 0 ||
      l.batch_segments <= 0) {
    return refuse(Errc::kUsage, "context, pages, batch_tokens and batch_segments must be positive");
  }
  if (!kv_type_of(l.kv_type)) {
    return refuse(Errc::kUnsupported, "kv type " + l.kv_type + ": expected f32, f16, bf16 or int8");
  }
  if (!options.kernels.empty() && options.kernels != kTiers[kTierUsed]) {
    return refuse(Errc::kUnsupported, "kernels " + options.kernels + ": expected " +
                                          kTiers[kTierUsed] + ", the tier that is written");
  }
  const plan::ModelShape& s = program.shape;
  bool fits = !program.ops.empty() && s.head_dim > 0 && s.head_dim <= kHeadDimMost &&
              s.kv_heads > 0 && s.heads % s.kv_heads == 0 && s.rope_dims <= s.head_dim &&
              program.ropes.size() <= 2 && program.ops.front().kind == OpKind::kEmbed &&
              program.ops.back().kind == OpKind::kNormLogits;
  for (const model::Rope& rope : program.ropes) {
    fits = fits && static_cast<std::int64_t>(rope.inv_freq.size()) == s.rope_dims / 2;
  }
  if (fits) return {};
  return refuse(Errc::kUnsupported, "the program's heads or rotary pairs do not fit");
}

}  // namespace

class Loader {
 public:
  Loader(const model::Program& program, const backend::LoadOptions& options, OpenclExecutor& to)
      : program_(program), options_(options), to_(to), shape_(program.shape) {}

  Result<void> load() {
    HF_TRY(QueueHandle queue, to_.station_->make_queue());
    to_.queue_ = Queue(*to_.station_->device().api, std::move(queue),
                       static_cast<std::size_t>(shape_.layers) + 4);
    for (const Op& op : program_.ops) HF_CHECKED(place(op));
    measure_scratch();
    measure_kv();
    std::uint64_t all = to_.weights_.bytes() + kv_bytes_;
    for (const Wish& wish : wishes_) all += wish.bytes;
    HF_CHECKED(to_.station_->memory().check_room(all, "the model"));
    HF_CHECKED(make_kernels());
    HF_CHECKED(take_memory());
    HF_CHECKED(fill_turns());
    reserve_host();
    return {};
  }

 private:
  struct Wish {  // a buffer of scratch
    Buffer* to;
    std::uint64_t bytes;
    const char* what;
  };

  Result<void> place(const Op& op) {
    DeviceOp out;
    out.kind = op.kind;
    out.layer = shape_.causal ? op.layer : std::min(op.layer, 0);  // pages live for one layer
    out.norm_kind = op.norm;
    out.activate = activate_of(op.activation);
    out.from_h = op.from_h;
    out.to_h = op.to_h;
    out.gate_rows = op.gate_rows;
    out.row_norm = op.row_norm;
    out.rope = op.rope;
    out.window = static_cast<std::int32_t>(std::min<std::int64_t>(op.window, INT32_MAX));
    out.scale = static_cast<float>(op.scale);
    out.cap = static_cast<float>(op.cap);
    HF_CHECKED(place_weights(op, out));
    to_.ops_.push_back(std::move(out));
    return {};
  }

  Result<void> place_weights(const Op& op, DeviceOp& out) {
    switch (op.kind) {
      case OpKind::kAttention:
        return {};
      case OpKind::kEmbed:
        return place_embedding(op, out);
      case OpKind::kEmbedMore:
        return place_embed_more(op, out);
      case OpKind::kNormQkv:
      case OpKind::kQkNorm:
        return place_qkv(op, out);
      case OpKind::kOutAdd:
      case OpKind::kDownAdd:
      case OpKind::kExpertDownAdd: {
        HF_CHECKED(add_product(op.w[0], out));
        HF_TRY(out.bias_at[0], to_.weights_.add_vector({op.bias[0]}, op.bias[0].rows));
        return {};
      }
      case OpKind::kNormAdd:
      case OpKind::kNorm:
        return place_norm(op, out);
      case OpKind::kRoute: {
        HF_TRY(out.gate_at, to_.weights_.add_vector({op.w[2]}, op.w[2].rows));
        break;
      }
      case OpKind::kNormGateUp:
      case OpKind::kExpertGateUp:
      case OpKind::kNormLogits:
        break;
    }
    HF_CHECKED(place_norm(op, out));
    for (int i = 0; i < 2; ++i) {
      const WeightRef& w = op.w[1 + i];
      if (!w.present() || (i == 1 && op.kind == OpKind::kRoute)) continue;
      HF_CHECKED(add_product(w, out));
      HF_TRY(out.bias_at[i], to_.weights_.add_vector({op.bias[1 + i]}, op.bias[1 + i].rows));
    }
    out.gated = out.products.size() == 2;
    return {};
  }

  Result<void> add_product(const WeightRef& w, DeviceOp& out) {
    // A tied embedding is read from the output's panels, so its weights exist once.
    if (embedding_ != nullptr && w.tensor == embedding_) {
      out.products.push_back(to_.ops_.front().products[0]);
      return {};
    }
    HF_TRY(DeviceMatrix matrix, to_.weights_.add_matrix({w}, w.rows / w.matrices));
    out.products.push_back({std::move(matrix), 0});
    return {};
  }

  Result<void> place_embedding(const Op& op, DeviceOp& out) {
    HF_CHECKED(add_product(op.w[0], out));
    embedding_ = op.w[0].tensor;
    return {};
  }

  Result<void> place_norm(const Op& op, DeviceOp& out) {
    HF_TRY(out.norm_at, to_.weights_.add_vector({op.w[0]}, shape_.width));
    HF_TRY(out.norm_bias_at, to_.weights_.add_vector({op.bias[0]}, shape_.width));
    return {};
  }

  Result<void> place_embed_more(const Op& op, DeviceOp& out) {
    if (op.w[1].present()) {
      WeightRef first = op.w[1];
      first.rows = 1;
      HF_TRY(out.types_at, to_.weights_.add_vector({first}, first.cols));
    }
    if (!op.w[0].present()) return {};
    if (options_.limits.context > op.w[0].rows) {
      return refuse(Errc::kUsage, "tensor " + op.w[0].tensor->name + ": holds " +
                                      std::to_string(op.w[0].rows) +
                                      " positions; expected a context of at most that many");
    }
    return add_product(op.w[0], out);
  }

  /// Neighbours of one type become one matrix, and one launch.
  Result<void> place_qkv(const Op& op, DeviceOp& out) {
    HF_CHECKED(place_norm(op, out));
    std::int32_t column = 0;
    for (int i = 1; i < 4;) {
      if (!op.w[i].present()) break;  // kQkNorm
      std::vector<WeightRef> refs = {op.w[i++]};
      while (i < 4 && op.w[i].tensor->type == refs[0].tensor->type) refs.push_back(op.w[i++]);
      HF_TRY(DeviceMatrix matrix, to_.weights_.add_matrix(refs, shape_.head_dim));
      const auto columns = static_cast<std::int32_t>(matrix.panels * kLanes);
      out.products.push_back({std::move(matrix), column});
      column += columns;
    }
    CHECK(op.bias[1].present() == op.bias[2].present());
    CHECK(op.bias[1].present() == op.bias[3].present());
    HF_TRY(out.bias_at[0],
           to_.weights_.add_vector({op.bias[1], op.bias[2], op.bias[3]}, shape_.head_dim));
    for (int i = 0; i < 2; ++i) {
      HF_TRY(out.head_norm_at[i], to_.weights_.add_vector({op.w[4 + i]}, shape_.head_dim));
    }
    return {};
  }

  void wish_rows(Rows& rows, std::int64_t n, std::int64_t columns, const char* what) {
    rows.stride = static_cast<std::int32_t>(columns);
    wishes_.push_back({&rows.buffer, static_cast<std::uint64_t>(n * columns) * 4, what});
  }
  void wish(Buffer& buffer, std::int64_t words, const char* what) {
    wishes_.push_back({&buffer, static_cast<std::uint64_t>(words) * 4, what});
  }

  /// Rows that products read are padded to whole spans of k, with zeros that nobody writes.
  void measure_scratch() {
    const backend::Limits& l = options_.limits;
    const std::int64_t batch = l.batch_tokens, logit_rows = std::max(l.logit_rows, 1);
    const std::int64_t width = round_up(shape_.width, cpu::kSpan);
    Scratch& s = to_.scratch_;
    to_.head_pad_ = static_cast<std::int32_t>(round_up(shape_.head_dim, kLanes));
    to_.pairs_ = static_cast<std::int32_t>(shape_.rope_dims / 2);
    wish_rows(s.x, batch, width, "rows of x");
    wish_rows(s.h, std::max(batch, logit_rows), width, "rows of h");
    wish_rows(s.qkv, batch, (shape_.heads + 2 * shape_.kv_heads) * to_.head_pad_,
              "rows of q, k, v");
    wish_rows(s.a, batch, round_up(shape_.heads * shape_.head_dim, cpu::kSpan),
              "rows of attention");
    const std::int64_t ff = shape_.experts > 0 ? shape_.shared_ff : shape_.ff;
    wish_rows(s.f, batch, round_up(std::max<std::int64_t>(ff, 1), cpu::kSpan),
              "rows of the feed-forward");
    if (shape_.causal) {
      wish_rows(s.wanted, logit_rows, width, "rows that want logits");
      wish_rows(s.logits, logit_rows, shape_.vocab, "rows of logits");
    }
    wish(s.tokens, batch * 4, "tokens");
    wish(s.tables, table_words(), "page tables");
    for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
      wish(s.turns[i], 2 * l.context * to_.pairs_, "rotary tables");
    }
    if (shape_.experts > 0) measure_experts(batch, width);
  }

  void measure_experts(std::int64_t batch, std::int64_t width) {
    Scratch& s = to_.scratch_;
    const std::int64_t slots = batch * shape_.experts_used;
    wish_rows(s.scores, batch, round_up(shape_.experts, kLanes), "scores of experts");
    wish_rows(s.e, slots, round_up(shape_.expert_ff, cpu::kSpan), "rows of experts");
    wish_rows(s.d, slots, width, "results of experts");
    wish(s.expert, slots, "chosen experts");
    wish(s.weight, slots, "weights of experts");
    wish(s.gate, batch, "gates");
  }

  std::int64_t table_words() const {
    const backend::Limits& l = options_.limits;
    const std::int64_t pages = (l.context + cpu::kPageTokens - 1) / cpu::kPageTokens;
    return l.batch_segments * pages + std::max(l.logit_rows, 1);
  }

  void measure_kv() {
    to_.page_bytes_ = static_cast<std::uint64_t>(shape_.kv_heads *
                                                 cpu::head_page_bytes(to_.kv_type_, to_.head_pad_));
    kv_layers_ = shape_.causal ? static_cast<std::size_t>(shape_.layers) : 1;
    kv_bytes_ =
        2 * kv_layers_ * to_.page_bytes_ * static_cast<std::uint64_t>(options_.limits.pages);
  }

  Result<void> make_kernels() {
    KernelSet& k = to_.kernels_;
    for (const DeviceOp& op : to_.ops_) {
      for (const Product& p : op.products) HF_CHECKED(make_product_kernels(p.matrix.format));
    }
    HF_CHECKED(make("rows", rows_source(),
                    {{"norm_rms", &k.norm_rms},
                     {"norm_layer", &k.norm_layer},
                     {"gather", &k.gather},
                     {"rescale", &k.rescale}}));
    HF_CHECKED(make("pages", pages_source(to_.kv_type_),
                    {{"finish_head", &k.finish_head}, {"attention", &k.attention}}));
    if (shape_.experts == 0) return {};
    return make("experts", experts_source(),
                {{"choose_experts", &k.choose_experts},
                 {"open_gate", &k.open_gate},
                 {"add_slots", &k.add_slots}});
  }

  Result<void> make_product_kernels(cpu::Format format) {
    ProductKernels& k = to_.kernels_.product[static_cast<std::size_t>(format)];
    if (k.one.get() != nullptr) return {};
    return make("product " + std::to_string(static_cast<int>(format)), product_source(format),
                {{"product_one", &k.one}, {"product_wide", &k.wide}, {"embed", &k.embed}});
  }

  struct Wanted {
    const char* name;
    KernelHandle* to;
  };
  Result<void> make(const std::string& what, const std::string& source,
                    const std::vector<Wanted>& kernels) {
    Programs& programs = to_.station_->programs();
    HF_TRY(const cl_program program, programs.get(what, source, options_.cache_dir));
    for (const Wanted& wanted : kernels) {
      HF_TRY(*wanted.to, programs.kernel(program, wanted.name));
    }
    return {};
  }

  Result<void> take_memory() {
    DeviceMemory& memory = to_.station_->memory();
    const cl_command_queue queue = to_.queue_.get();
    for (const Wish& wish : wishes_) {
      HF_TRY(*wish.to, memory.take(queue, wish.bytes, wish.what));
      to_.memory_.scratch += wish.to->bytes();
    }
    for (std::size_t i = 0; i < 2 * kv_layers_; ++i) {
      std::vector<Buffer>& pages = i % 2 == 0 ? to_.keys_ : to_.values_;
      HF_TRY(Buffer buffer, memory.take(queue, kv_bytes_ / (2 * kv_layers_), "KV pages"));
      to_.memory_.kv += buffer.bytes();
      pages.push_back(std::move(buffer));
    }
    to_.memory_.weights = to_.weights_.bytes();
    to_.memory_.on_device = true;
    return to_.weights_.upload(*to_.station_, to_.queue_, options_.threads, options_.progress);
  }

  Result<void> fill_turns() {
    for (std::size_t i = 0; i < program_.ropes.size(); ++i) {
      const model::Rope& rope = program_.ropes[i];
      const bool far = !rope.inv_freq_long.empty() && options_.limits.context > rope.long_from;
      const std::vector<float> table =
          turn_table(far ? rope.inv_freq_long : rope.inv_freq, rope.magnitude);
      to_.queue_.write(to_.scratch_.turns[i].get(), 0, table.data(), table.size() * sizeof(float));
    }
    const cl_int status = to_.queue_.wait();
    if (status == CL_SUCCESS) return {};
    return refuse(Errc::kModelFailed,
                  "fill " + to_.station_->device().name + ": " + status_text(status));
  }

  /// cos [context][pairs], then sin.
  std::vector<float> turn_table(const std::vector<double>& frequency, double magnitude) const {
    const auto n = static_cast<std::size_t>(options_.limits.context) * frequency.size();
    std::vector<float> table(2 * n);
    for (std::size_t at = 0; at < n; ++at) {
      const double position = static_cast<double>(at / frequency.size());
      const double angle = position * frequency[at % frequency.size()];
      table[at] = static_cast<float>(std::cos(angle) * magnitude);
      table[n + at] = static_cast<float>(std::sin(angle) * magnitude);
    }
    return table;
  }

  void reserve_host() {
    const backend::Limits& l = options_.limits;
    const auto batch = static_cast<std::size_t>(l.batch_tokens);
    to_.tokens_.reserve(batch);
    to_.tables_.reserve(static_cast<std::size_t>(table_words()));
    if (shape_.causal) {
      to_.logits_.resize(static_cast<std::size_t>(std::max(l.logit_rows, 1)) *
                         static_cast<std::size_t>(shape_.vocab));
    }
    to_.hidden_.resize(batch * static_cast<std::size_t>(to_.scratch_.x.stride));
  }

  const model::Program& program_;
  const backend::LoadOptions& options_;
  OpenclExecutor& to_;
  const plan::ModelShape& shape_;
  const gguf::TensorInfo* embedding_ = nullptr;
  std::vector<Wish> wishes_;
  std::size_t kv_layers_ = 0;
  std::uint64_t kv_bytes_ = 0;
  friend class OpenclExecutor;

 public:
  static Result<std::unique_ptr<backend::Executor>> run(const Api& api, std::string_view device,
                                                        const model::Program& program,
                                                        const backend::LoadOptions& options) {
    HF_CHECKED(check_options(program, options));
    HF_TRY(const Device picked, pick_device(api, device));
    HF_TRY(auto station, Station::open(picked));
    std::unique_ptr<OpenclExecutor> executor(new OpenclExecutor(
        std::move(station), program, options, *kv_type_of(options.limits.kv_type)));
    HF_CHECKED(Loader(program, options, *executor).load());
    return std::unique_ptr<backend::Executor>(std::move(executor));
  }
};

OpenclExecutor::OpenclExecutor(std::shared_ptr<Station> station, const model::Program& program,
                               const backend::LoadOptions& options, cpu::KvType kv_type)
    : station_(std::move(station)),
      shape_(program.shape),
      limits_(options.limits),
      kv_type_(kv_type),
      expert_norm_(program.details.expert_weights_norm),
      expert_scale_(static_cast<float>(program.details.expert_weights_scale)),
      weights_(station_->device().max_alloc) {}

/// "opencl/t0.DEVICE.DRIVER/r1": another driver may round otherwise, so it is part of the class.
std::string OpenclExecutor::class_prefix() const {
  std::string machine = station_->device().name + "." + station_->device().driver;
  for (char& c : machine) {
    if (c == '/' || c == ' ') c = '_';
  }
  return std::string("opencl/") + kTiers[kTierUsed] + "." + machine + "/" + kKernelsRev;
}

Result<std::unique_ptr<backend::Executor>> load_with(const Api& api, std::string_view device,
                                                     const model::Program& program,
                                                     const backend::LoadOptions& options) {
  return Loader::run(api, device, program, options);
}

Result<std::unique_ptr<backend::Executor>> load(std::string_view device,
                                                const model::Program& program,
                                                const backend::LoadOptions& options) {
  HF_TRY(const Api* api, system_api());
  return load_with(*api, device, program, options);
}

}  // namespace holdfast::opencl
