#pragma once
// A second opinion: transformers written down once more, slowly, in float64 over dequantised
// weights, after the papers and the published modelling code of each family. It shares nothing with
// worker/ and nothing with shared/plan: it reads keys and tensors of the file by itself.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::reference {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

double gelu_new(double x);
void add(Row& y, const Row& b, double scale = 1);
Row softmax(Row x);

/// The largest relative error of a row, each row by its own norm. `have`: the rows in sequence.
double worst_error(const std::vector<float>& have, const Rows& want);

class Model {
 public:
  /// Loads for a `context`, by which longrope chooses its factors.
  Model(const gguf::File& file, std::int64_t context);
  /// The last layer's row for each token, after the output norm if there is one.
  Rows hidden(const std::vector<std::int32_t>& tokens);
  Rows logits(const std::vector<std::int32_t>& tokens);

 private:
  struct Matrix {
    std::int64_t cols = 0, rows = 0;
    Row values;
  };
  double number(const std::string& suffix, double fallback) const;
  bool has(const std::string& tensor) const;
  const Matrix& matrix(const std::string& name);
  Row times(const std::string& name, const Row& x, std::int64_t first = 0, std::int64_t rows = 0);
  void add_bias(const std::string& name, Row& y, std::int64_t first = 0);
  Row rms(const std::string& name, const Row& x);
  Row layer_norm(const std::string& name, const Row& x);
  Row norm(const std::string& name, const Row& x);
  void apply_rope(Row& x, std::int64_t heads, std::int64_t position, std::int64_t layer);
  double frequency(std::int64_t pair, bool windowed, double& magnitude);
  double yarn(double f, std::int64_t pair, double base, double factor, double& magnitude);
  bool in_window_layer(std::int64_t layer) const;
  Row project(const std::string& block, int which, const Row& x);
  Rows attention(std::int64_t layer, const Rows& x);
  Rows latent_attention(const std::string& block, std::int64_t layer, const Rows& x);
  Rows convolved(const std::string& block, const Rows& x);
  Rows delta_net(const std::string& block, const Rows& x);
  Row feed_forward(const std::string& block, const Row& x);
  Row gated(const std::string& of, const std::string& kind, const Row& x, std::int64_t expert,
            std::int64_t rows);
  void close_groups(Row& rank) const;
  Row experts(const std::string& block, const Row& x);
  Rows embed(const std::vector<std::int32_t>& tokens);

  // reference_gemma4.cpp
  double of_layer(const std::string& suffix, std::int64_t layer, double fallback) const;
  Row unit(const Row& x) const;
  Rows gemma4(const std::vector<std::int32_t>& tokens, Rows x);
  Rows gemma4_inputs(const std::vector<std::int32_t>& tokens, const Rows& x);
  Row gemma4_heads(const std::string& block, const char* matrix, const char* norms, const Row& x,
                   std::size_t position, std::int64_t layer);
  Rows gemma4_attention(std::int64_t layer, const Rows& x);
  Row gemma4_gated(const std::string& block, const std::string& kind, const Row& x,
                   std::int64_t expert);
  Row gemma4_experts(const std::string& block, const Row& x);

  bool is(const char* arch) const { return arch_ == arch; }

  const gguf::File& file_;
  std::string arch_;
  std::int64_t context_;
  std::int64_t layers_, width_, heads_, kv_heads_, head_, rotary_;
  std::map<std::string, Matrix> cache_;
  std::map<bool, std::vector<std::pair<double, double>>> rope_tables_;  // frequency, magnitude
  std::map<bool, std::pair<Rows, Rows>> last_;  // keys and values, of Gemma 4's kinds of layers
};

}  // namespace holdfast::reference
