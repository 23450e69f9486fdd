// Goal: a shape is read only where header and tensors agree; every disagreement is one error that
// names the tensor or key; the memory envelope never understates by overflow.
// Method: a small llama model described as keys and tensors, one thing changed at a time.

#include "shared/plan/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "shared/gguf/quants.h"
#include "shared/gguf/writer.h"

namespace holdfast::plan::plan_test {
namespace {

using gguf::File;
using gguf::TensorType;
using gguf::Writer;

struct Tensor {
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> dims;
};

/// A model to change: keys by functions that set them, tensors by name.
struct Model {
  std::map<std::string, std::function<void(Writer&, const std::string&)>> keys;
  std::map<std::string, Tensor> tensors;

  void u32(const std::string& key, std::uint32_t v) {
    keys[key] = [v](Writer& w, const std::string& k) { w.set_u32(k, v); };
  }
  void f32(const std::string& key, float v) {
    keys[key] = [v](Writer& w, const std::string& k) { w.set_f32(k, v); };
  }
  void text(const std::string& key, const std::string& v) {
    keys[key] = [v](Writer& w, const std::string& k) { w.set_string(k, v); };
  }
  void tokens(std::size_t n) {
    keys["tokenizer.ggml.model"] = [](Writer& w, const std::string& k) {
      w.set_string(k, "llama");
    };
    keys["tokenizer.ggml.tokens"] = [n](Writer& w, const std::string& k) {
      w.set_strings(k, std::vector<std::string>(n, "t"));
    };
  }

  std::shared_ptr<const File> file() const {
    Writer writer;
    for (const auto& [key, set] : keys) set(writer, key);
    for (const auto& [name, tensor] : tensors) {
      std::uint64_t bytes = gguf::row_bytes(tensor.type, tensor.dims[0]).value();
      for (std::size_t d = 1; d < tensor.dims.size(); ++d) bytes *= tensor.dims[d];
      writer.add_tensor(name, tensor.type, tensor.dims, [bytes](const Writer::Sink& sink) {
        const std::string zeros(bytes, '\0');
        return sink(std::as_bytes(std::span(zeros.data(), zeros.size())));
      });
    }
    return File::from_bytes(writer.to_bytes().value(), "m.gguf").value();
  }
};

/// llama: 2 layers, width 64, 4 heads of 16, 2 KV heads, ff 96, vocabulary 40, embeddings not tied.
Model llama() {
  Model m;
  m.text("general.architecture", "llama");
  m.text("general.name", "n");
  m.u32("llama.block_count", 2);
  m.u32("llama.context_length", 128);
  m.u32("llama.embedding_length", 64);
  m.u32("llama.feed_forward_length", 96);
  m.u32("llama.attention.head_count", 4);
  m.u32("llama.attention.head_count_kv", 2);
  m.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m.u32("llama.vocab_size", 40);
  m.tensors["token_embd.weight"].dims = {64, 40};
  m.tensors["output_norm.weight"].dims = {64};
  m.tensors["output.weight"].dims = {64, 40};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    m.tensors[layer + "attn_norm.weight"].dims = {64};
    m.tensors[layer + "attn_q.weight"].dims = {64, 64};
    m.tensors[layer + "attn_k.weight"].dims = {64, 32};
    m.tensors[layer + "attn_v.weight"].dims = {64, 32};
    m.tensors[layer + "attn_output.weight"].dims = {64, 64};
    m.tensors[layer + "ffn_norm.weight"].dims = {64};
    m.tensors[layer + "ffn_gate.weight"].dims = {64, 96};
    m.tensors[layer + "ffn_up.weight"].dims = {64, 96};
    m.tensors[layer + "ffn_down.weight"].dims = {96, 64};
  }
  return m;
}

void expect_refused(const Model& model, Errc code, const std::string& part) {
  const auto shape = read_shape(*model.file());
  ASSERT_FALSE(shape.has_value()) << "accepted; expected: " << part;
  EXPECT_EQ(shape.error().code, code) << shape.error().what;
  EXPECT_EQ(shape.error().what.find("read model m.gguf: "), 0u) << shape.error().what;
  EXPECT_NE(shape.error().what.find(part), std::string::npos)
      << shape.error().what << "\nlacks: " << part;
}

ModelShape shape_of(const Model& model) {
  const auto shape = read_shape(*model.file());
  EXPECT_TRUE(shape.has_value()) << shape.error().what;
  return shape.has_value() ? *shape : ModelShape();
}

TEST(Shape, ReadShape_WithALlamaModel_ReturnsSizesThatAddUp) {
  const ModelShape s = shape_of(llama());
  EXPECT_EQ(s.architecture, "llama");
  EXPECT_EQ(s.layers, 2);
  EXPECT_EQ(s.width, 64);
  EXPECT_EQ(s.ff, 96);
  EXPECT_EQ(s.heads, 4);
  EXPECT_EQ(s.kv_heads, 2);
  EXPECT_EQ(s.head_dim, 16);
  EXPECT_EQ(s.vocab, 40);
  EXPECT_EQ(s.context, 128);
  EXPECT_EQ(s.rope_dims, 16);
  EXPECT_EQ(s.rope_base, 10000);
  EXPECT_EQ(s.rope_style, RopeStyle::kNorm);
  EXPECT_FALSE(s.tied_embeddings);
  EXPECT_FALSE(s.qkv_bias);
  EXPECT_FALSE(s.has_tokenizer);
  EXPECT_EQ(s.file_type, "F32");
  const std::uint64_t layer = 64 * 2 + 64 * 64 * 2 + 64 * 32 * 2 + 64 * 96 * 3;
  EXPECT_EQ(s.parameters, 64u * 40 * 2 + 64 + 2 * layer);
  // The output's 40 rows are packed as 48, and each vector is followed by 16 floats.
  EXPECT_EQ(s.weights_bytes, s.parameters * 4 + 4 * (8 * 64 + 5 * 16));
}

TEST(Shape, ReadShape_WhenKeysAreAbsent_UsesDefaults) {
  Model m = llama();
  m.keys.erase("llama.vocab_size");
  m.keys.erase("llama.attention.head_count_kv");
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    m.tensors[layer + "attn_k.weight"].dims = {64, 64};
    m.tensors[layer + "attn_v.weight"].dims = {64, 64};
  }
  m.tensors.erase("output.weight");
  const ModelShape s = shape_of(m);
  EXPECT_EQ(s.vocab, 40);
  EXPECT_EQ(s.kv_heads, 4);
  EXPECT_TRUE(s.tied_embeddings);
  m.tokens(40);
  EXPECT_EQ(shape_of(m).vocab, 40);
  EXPECT_TRUE(shape_of(m).has_tokenizer);
}

// Fine-tunes add tokens and leave the key: embedding and tokens agree, so the model is sound.
TEST(Shape, VocabSize_WhenTheKeyIsStale_IsTheNumberOfTokens) {
  Model m = llama();
  m.u32("llama.vocab_size", 39);
  expect_refused(m, Errc::kFileInvalid, "\"token_embd.weight\" is 64 x 40, expected 64 x 39");
  m.tokens(40);
  EXPECT_EQ(shape_of(m).vocab, 40);
  m.tokens(41);
  expect_refused(m, Errc::kFileInvalid, "expected 64 x 41");
}

TEST(Shape, Matrix_WhenStoredTransposed_IsRefusedByName) {
  Model m = llama();
  m.tensors["token_embd.weight"].dims = {40, 64};
  expect_refused(m, Errc::kFileInvalid,
                 "\"token_embd.weight\" is stored transposed: it is 40 x 64, expected 64 x 40");
  m.keys.erase("llama.vocab_size");
  expect_refused(m, Errc::kFileInvalid, "is stored transposed");
  m.tokens(40);
  expect_refused(m, Errc::kFileInvalid, "is stored transposed");
  m = llama();
  m.tensors["blk.1.ffn_up.weight"].dims = {96, 64};
  expect_refused(m, Errc::kFileInvalid, "\"blk.1.ffn_up.weight\" is stored transposed");
}

TEST(Shape, EncoderTensors_WhenOfVisionOrAudio_AreLeftOutWithANote) {
  Model m = llama();
  EXPECT_TRUE(notes_of(*m.file()).empty());
  m.tensors["v.blk.0.attn_q.weight"].dims = {16};
  m.tensors["mm.0.weight"].dims = {16};
  m.tensors["a.conv1d.1.weight"].dims = {16};
  EXPECT_EQ(shape_of(m).weights_bytes, shape_of(llama()).weights_bytes);
  const auto notes = notes_of(*m.file());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("3 tensors"), std::string::npos) << notes[0];
}

TEST(Shape, PerLayerList_WhenOfWrongLength_IsRefused) {
  const auto heads = [](std::vector<std::int32_t> each) {
    Model m = llama();
    m.keys["llama.attention.head_count_kv"] = [each](Writer& w, const std::string& k) {
      w.set_i32s(k, each);
    };
    return m;
  };
  EXPECT_EQ(shape_of(heads({2, 2})).kv_heads, 2);
  for (const auto& each : {std::vector<std::int32_t>{2, 2, 2}, {2, 2, 2, 2}}) {
    expect_refused(heads(each), Errc::kFileInvalid, "expected one for each of 2 layers");
  }
}

TEST(Shape, Tensor_WhenMissingOrMisshapen_IsRefused) {
  Model m = llama();
  m.tensors.erase("blk.1.attn_q.weight");
  expect_refused(m, Errc::kFileInvalid, "\"blk.1.attn_q.weight\" is missing, expected 64 x 64");
  m = llama();
  m.tensors["blk.0.attn_k.weight"].dims = {64, 64};
  expect_refused(m, Errc::kFileInvalid, "\"blk.0.attn_k.weight\" is 64 x 64, expected 64 x 32");
  m = llama();
  m.tensors["output_norm.weight"].dims = {63};
  expect_refused(m, Errc::kFileInvalid, "\"output_norm.weight\" is 63, expected 64");
  m = llama();
  m.tensors["blk.0.attn_q.weight"].type = TensorType::kQ8_1;
  expect_refused(m, Errc::kUnsupported, "has type Q8_1");
  m = llama();
  m.tensors["output_norm.weight"].type = TensorType::kQ8_0;
  expect_refused(m, Errc::kUnsupported, "expected F32, F16 or BF16");
  m = llama();
  m.tensors["blk.0.attn_q_norm.weight"].dims = {16};
  expect_refused(m, Errc::kUnsupported, "\"blk.0.attn_q_norm.weight\" is not part of a llama");
  m = llama();
  m.tensors.erase("token_embd.weight");
  expect_refused(m, Errc::kFileInvalid, "\"token_embd.weight\" is missing");
  m.tensors.clear();
  expect_refused(m, Errc::kFileInvalid, "there are no tensors");
}

TEST(Shape, Number_WhenOutOfRange_IsRefusedByKey) {
  const char* keys[] = {
      "llama.block_count",          "llama.embedding_length",        "llama.feed_forward_length",
      "llama.attention.head_count", "llama.attention.head_count_kv", "llama.context_length"};
  for (const std::string key : keys) {
    for (const std::uint32_t value : {0u, 0xffffffffu}) {
      Model m = llama();
      m.u32(key, value);
      expect_refused(m, Errc::kFileInvalid, "key \"" + key + "\" is");
    }
    Model m = llama();
    m.text(key, "2");
    expect_refused(m, Errc::kFileInvalid, "key \"" + key + "\" has another type");
  }
  Model m = llama();
  m.keys.erase("llama.block_count");
  expect_refused(m, Errc::kFileInvalid, "key \"llama.block_count\" is missing");
  m = llama();
  m.u32("llama.attention.head_count_kv", 3);
  expect_refused(m, Errc::kFileInvalid, "expected a multiple of the 3 KV heads");
  m = llama();
  m.u32("llama.attention.head_count", 6);
  expect_refused(m, Errc::kFileInvalid, "expected a multiple of the 6 heads");
  m = llama();
  m.u32("llama.rope.dimension_count", 18);
  expect_refused(m, Errc::kFileInvalid, "llama.rope.dimension_count");
  for (const float eps : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    m = llama();
    m.f32("llama.attention.layer_norm_rms_epsilon", eps);
    expect_refused(m, Errc::kFileInvalid, "layer_norm_rms_epsilon");
  }
}

TEST(Shape, Model_WhenItsFeaturesAreUnsupported_IsRefused) {
  Model m = llama();
  m.text("general.architecture", "mamba");
  expect_refused(m, Errc::kUnsupported, "architecture \"mamba\" is not supported");
  m.keys.erase("general.architecture");
  expect_refused(m, Errc::kFileInvalid, "\"general.architecture\" is missing");
  m = llama();
  m.u32("llama.expert_count", 8);
  expect_refused(m, Errc::kFileInvalid, "\"llama.expert_used_count\" is missing");
  m.u32("llama.expert_used_count", 9);
  expect_refused(m, Errc::kFileInvalid, "expert_used_count\" is 9, expected 1 to 8");
  m.u32("llama.expert_used_count", 2);
  expect_refused(m, Errc::kFileInvalid, "\"blk.0.ffn_gate_inp.weight\" is missing");
  for (const char* key :
       {"llama.attention.max_alibi_bias", "llama.attention.clamp_kqv", "llama.logit_scale",
        "llama.leading_dense_block_count", "llama.rope.scaling.yarn_log_multiplier"}) {
    m = llama();
    m.f32(key, 0.25f);
    expect_refused(m, Errc::kUnsupported, key);
    m.f32(key, 0);
    EXPECT_TRUE(read_shape(*m.file()).has_value()) << key;
  }
  m = llama();
  m.u32("split.count", 3);
  expect_refused(m, Errc::kUnsupported, "one of 3 parts");
  for (const std::string scaling : {"longrope", "dynamic", "llama3"}) {
    m = llama();
    m.text("llama.rope.scaling.type", scaling);
    m.f32("llama.rope.scaling.factor", 4);
    expect_refused(m, Errc::kUnsupported, "rope scaling \"" + scaling + "\"");
  }
  m = llama();
  m.u32("llama.attention.key_length", 16);
  m.u32("llama.attention.value_length", 8);
  expect_refused(m, Errc::kUnsupported, "value_length");
}

TEST(Shape, RopeScaling_WithKeysOrFrequencies_IsRecognised) {
  Model m = llama();
  m.text("llama.rope.scaling.type", "linear");
  m.f32("llama.rope.scaling.factor", 4);
  EXPECT_EQ(shape_of(m).rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(shape_of(m).rope_factor, 4);
  m.keys.erase("llama.rope.scaling.type");
  EXPECT_EQ(shape_of(m).rope_scaling, RopeScaling::kLinear);
  m = llama();
  m.tensors["rope_freqs.weight"].dims = {8};
  EXPECT_EQ(shape_of(m).rope_scaling, RopeScaling::kLlama3);
  EXPECT_TRUE(shape_of(m).has_rope_freqs);
  m.tensors["rope_freqs.weight"].dims = {16};
  expect_refused(m, Errc::kFileInvalid, "\"rope_freqs.weight\" is 16, expected 8");
}

TEST(Shape, QwenModel_WhenBiasesOrNormsAreMissing_IsRefused) {
  for (const std::string arch : {"qwen2", "qwen3"}) {
    Model m = llama();
    Model q;
    q.tensors = m.tensors;
    for (const auto& [key, set] : m.keys) {
      q.keys[key.starts_with("llama.") ? arch + key.substr(5) : key] = set;
    }
    q.text("general.architecture", arch);
    if (arch == "qwen3") {
      expect_refused(q, Errc::kFileInvalid, "\"blk.0.attn_q_norm.weight\" is missing");
    }
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      if (arch == "qwen2") {
        q.tensors[layer + "attn_q.bias"].dims = {64};
        q.tensors[layer + "attn_k.bias"].dims = {32};
        q.tensors[layer + "attn_v.bias"].dims = {32};
      } else {
        q.tensors[layer + "attn_q_norm.weight"].dims = {16};
        q.tensors[layer + "attn_k_norm.weight"].dims = {16};
      }
    }
    const ModelShape s = shape_of(q);
    EXPECT_EQ(s.rope_style, RopeStyle::kNeox);
    EXPECT_EQ(s.qkv_bias, arch == "qwen2");
    EXPECT_EQ(s.qk_norm, arch == "qwen3");
    q.tensors.erase(arch == "qwen2" ? "blk.1.attn_k.bias" : "blk.1.attn_k_norm.weight");
    expect_refused(q, Errc::kFileInvalid, "is missing");
  }
}

TEST(ShapeJson, ShapeJson_WhenParsedBack_IsTheSameOrRefused) {
  Model m = llama();
  m.text("general.name", "caf\xc3\xa9 \"x\"");
  const ModelShape s = shape_of(m);
  const std::string json = shape_to_json(s);
  const auto back = shape_from_json(json);
  ASSERT_TRUE(back.has_value()) << back.error().what;
  EXPECT_EQ(shape_to_json(*back), json);
  EXPECT_EQ(back->name, s.name);
  EXPECT_EQ(back->norm_eps, s.norm_eps);
  m.text("general.name", "\xff\xfe");  // not UTF-8: replaced, never passed on
  EXPECT_TRUE(shape_from_json(shape_to_json(shape_of(m))).has_value());
  for (const std::string bad : {"", "[]", "{}", "{\"layers\":", "nonsense"}) {
    const auto refused = shape_from_json(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Errc::kFileInvalid);
  }
  std::string typed = json;
  typed.replace(typed.find("\"layers\":2"), 10, "\"layers\":\"2\"");
  EXPECT_NE(shape_from_json(typed).error().what.find("layers"), std::string::npos);
}

TEST(TokenizerBlob, TokenizerBlob_WithAModelFile_HoldsTheTokenizerAlone) {
  Model m = llama();
  EXPECT_EQ(tokenizer_blob(*m.file()).error().code, Errc::kFileInvalid);
  m.tokens(40);
  m.text("tokenizer.chat_template", "{{ x }}");
  const auto blob = tokenizer_blob(*m.file());
  ASSERT_TRUE(blob.has_value()) << blob.error().what;
  const auto file = File::from_bytes(*blob, "blob").value();
  EXPECT_EQ(file->array_size("tokenizer.ggml.tokens"), 40u);
  EXPECT_EQ(file->get_string("tokenizer.chat_template"), "{{ x }}");
  EXPECT_FALSE(file->has("llama.block_count"));
  EXPECT_TRUE(file->tensors().empty());
}

TEST(MemoryEnvelope, MemoryEnvelope_WithALoadRequest_FollowsItsFormula) {
  const ModelShape s = shape_of(llama());
  LoadRequest load_request;
  load_request.context = 100;
  load_request.slots = 3;
  load_request.prefill_chunk = 10;
  load_request.threads = 2;
  const Envelope e = memory_envelope(s, load_request);
  EXPECT_EQ(e.pages, 3 * 2);
  constexpr std::uint64_t kHuge = 2u << 20;
  EXPECT_EQ(e.weights, kHuge);
  EXPECT_EQ(e.kv, kHuge);
  EXPECT_EQ(e.scratch, kHuge);
  EXPECT_EQ(e.tables, 40u * 200);
  EXPECT_EQ(e.total(), e.weights + e.kv + e.scratch + e.tables);
  // Large enough that the roundings do not hide the terms.
  load_request.context = 100'000;
  load_request.slots = 30;
  load_request.prefill_chunk = 10'000;
  load_request.threads = 3;
  const Envelope large = memory_envelope(s, load_request);
  const auto pages = [](double bytes) {
    return static_cast<std::uint64_t>(std::ceil(bytes / kHuge)) * kHuge;
  };
  const double x = 64 + 16, a = 64 + 16, f = 96 + 16, q = 64 + 16, batch = 10'030;
  const double attention = 256 * (2 * 16 + 4) + 128 * 16 + 4672 + (256 + 128) * 32;
  const double blocks = 24 * (96 / 32 + 1);
  const double floats = batch * (2 * x + q + a + f + blocks) + 37 * (x + 48) +
                        3 * (131'072 + batch * (272 + 272) + 5 * x + 4 * blocks + attention) +
                        100'000.0 * 16;
  EXPECT_EQ(large.scratch, pages(4 * floats));
  EXPECT_EQ(large.kv, pages(30.0 * 1563 * 64 * 2 * 2 * 2 * 16 * 2));
  load_request = {};
  load_request.context = 100;
  load_request.slots = 3;
  load_request.pool_tokens = 65;
  EXPECT_EQ(memory_envelope(s, load_request).pages, 2);
  const Envelope defaults = memory_envelope(s, {});
  EXPECT_EQ(defaults.context, 128);
  EXPECT_EQ(defaults.slots, 16);
  EXPECT_EQ(defaults.pages, 32);
}

TEST(MemoryEnvelope, KvRowBytes_WithEachCacheType_MatchesItsLayout) {
  EXPECT_EQ(kv_row_bytes("f32", 64), 256);
  EXPECT_EQ(kv_row_bytes("f16", 64), 128);
  EXPECT_EQ(kv_row_bytes("bf16", 64), 128);
  EXPECT_EQ(kv_row_bytes("int8", 64), 68);
  EXPECT_EQ(kv_row_bytes("fp8", 64), 64);
  EXPECT_EQ(kv_row_bytes("q4", 64), std::nullopt);
}

// An absurd request must look too large, never small because a product wrapped.
TEST(MemoryEnvelope, MemoryEnvelope_WhenRequestOverflows_Saturates) {
  const ModelShape s = shape_of(llama());
  LoadRequest load_request;
  load_request.context = std::numeric_limits<std::int64_t>::max();
  load_request.slots = std::numeric_limits<std::int32_t>::max();
  load_request.prefill_chunk = std::numeric_limits<std::int64_t>::max();
  const Envelope e = memory_envelope(s, load_request);
  EXPECT_EQ(e.kv, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(e.scratch, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(e.pages, std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(states_of(load_request.slots), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(e.total(), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace holdfast::plan::plan_test
