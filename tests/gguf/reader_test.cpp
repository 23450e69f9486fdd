// Goal: files of the writer and of versions 2 and 3 are read back exactly, and every way in which a
// header can lie ends in one clear error. Method: hand-made bytes (blob.h), one lie each; the
// message must name file, field, offset and expectation. The kinds are those of public reports on
// GGUF readers.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "shared/gguf/gguf.h"
#include "shared/gguf/parse.h"
#include "shared/gguf/writer.h"
#include "tests/gguf/blob.h"

namespace holdfast::gguf::reader_test {
namespace {

using gguf_test::Blob;

constexpr std::uint32_t kF32Type = 0, kQ4_KType = 12;
constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

/// The error of opening `blob`; fails the test if there is none.
Error error_of(const Blob& blob) {
  const auto file = File::from_bytes(blob.bytes(), "m.gguf");
  if (file.has_value()) {
    ADD_FAILURE() << "the file was accepted";
    return {};
  }
  EXPECT_EQ(file.error().what.find("open model m.gguf: "), 0u) << file.error().what;
  EXPECT_EQ(file.error().what.find('\n'), std::string::npos);
  return file.error();
}

void expect_invalid(const Blob& blob, const std::string& part) {
  const Error error = error_of(blob);
  EXPECT_EQ(error.code, Errc::kFileInvalid) << error.what;
  EXPECT_NE(error.what.find(part), std::string::npos) << error.what << "\nlacks: " << part;
}

std::string temp_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("holdfast-gguf-" + std::to_string(::getpid()) + "-" + name))
      .string();
}

Writer sample_writer() {
  Writer writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("a.u32", 7);
  writer.set_u64("a.u64", 1ull << 40);
  writer.set_i32("a.i32", -5);
  writer.set_f32("a.f32", 1.5f);
  writer.set_bool("a.bool", true);
  writer.set_strings("a.strings", {"x", "", "yz"});
  writer.set_floats("a.floats", {0.5f, -2.0f});
  writer.set_i32s("a.ints", {3, -4});
  writer.add_tensor("t.one", TensorType::kF32, {3}, [](const Writer::Sink& sink) {
    static const float values[] = {1, 2, 3};
    return sink(std::as_bytes(std::span(values)));
  });
  writer.add_tensor("t.two", TensorType::kQ8_0, {32, 2},
                    [](const Writer::Sink& sink) -> Result<void> {
                      const std::string bytes(68, '\x05');
                      for (const char& c : bytes)
                        HOLDFAST_CHECKED(sink(std::as_bytes(std::span(&c, 1))));
                      return {};
                    });
  return writer;
}

void expect_sample(const File& file) {
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.keys().size(), 9u);
  EXPECT_EQ(file.keys().front(), "general.architecture");
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_u64("a.u32"), 7u);
  EXPECT_EQ(file.get_u64("a.u64"), 1ull << 40);
  EXPECT_EQ(file.get_i64("a.i32"), -5);
  EXPECT_EQ(file.get_u64("a.i32"), std::nullopt);
  EXPECT_EQ(file.get_f64("a.f32"), 1.5);
  EXPECT_EQ(file.get_f64("a.u32"), 7.0);
  EXPECT_EQ(file.get_bool("a.bool"), true);
  EXPECT_EQ(file.get_u64("a.bool"), 1u);
  EXPECT_EQ(file.get_u64("a.f32"), std::nullopt);
  EXPECT_EQ(file.get_string("a.u32"), std::nullopt);
  EXPECT_EQ(file.get_u64("absent"), std::nullopt);
  EXPECT_EQ(file.get_strings("a.strings"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.get_floats("a.floats"), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(file.get_ints("a.ints"), (std::vector<std::int64_t>{3, -4}));
  EXPECT_EQ(file.get_ints("a.floats"), std::nullopt);
  EXPECT_EQ(file.get_floats("a.ints"), std::nullopt);
  EXPECT_EQ(file.get_strings("a.ints"), std::nullopt);
  EXPECT_EQ(file.array_size("a.strings"), 3u);
  EXPECT_EQ(file.array_type("a.ints"), ValueType::kI32);
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorInfo* two = file.tensor("t.two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->type, TensorType::kQ8_0);
  EXPECT_EQ(two->dims[0], 32u);
  EXPECT_EQ(two->dims[1], 2u);
  EXPECT_EQ(two->dims[2], 1u);
  EXPECT_EQ(two->elements(), 64u);
  EXPECT_EQ(two->data.size(), 68u);
  EXPECT_EQ(two->data.back(), std::byte{5});
  EXPECT_EQ(file.tensor("t.three"), nullptr);
}

TEST(Gguf, Writer_WhenItsFileIsRead_GivesTheSameContent) {
  Writer writer = sample_writer();
  const std::string path = temp_path("sample.gguf");
  std::uint64_t last = 0, total = 0;
  ASSERT_TRUE(writer.write(path, [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  }));
  const auto mapped = File::open(path);
  ASSERT_TRUE(mapped.has_value()) << mapped.error().what;
  expect_sample(**mapped);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, (*mapped)->file_bytes());
  const auto bytes = writer.to_bytes();
  ASSERT_TRUE(bytes.has_value());
  const auto file = File::from_bytes(*bytes, "sample");
  ASSERT_TRUE(file.has_value());
  expect_sample(**file);
  std::filesystem::remove(path);
}

TEST(Gguf, CopiedKeys_WhenReadBack_HaveTheirTypeAndValue) {
  Writer writer = sample_writer();
  const auto from = File::from_bytes(writer.to_bytes().value(), "from");
  ASSERT_TRUE(from.has_value());
  Writer copy;
  for (const std::string& key : (*from)->keys()) copy.copy_key(**from, key);
  const auto to = File::from_bytes(copy.to_bytes().value(), "to");
  ASSERT_TRUE(to.has_value());
  EXPECT_EQ((*to)->keys(), (*from)->keys());
  for (const std::string& key : (*from)->keys()) {
    const ByteSpan a = (*from)->raw_value(key), b = (*to)->raw_value(key);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << key;
  }
}

TEST(Gguf, Write_WhenATensorFails_LeavesOldFileAndNoTemporary) {
  const std::string folder = temp_path("folder");
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/m.gguf";
  ASSERT_TRUE(sample_writer().write(path));
  const auto before = std::filesystem::file_size(path);
  Writer failing;
  failing.add_tensor("t", TensorType::kF32, {1 << 20},
                     [](const Writer::Sink& sink) -> Result<void> {
                       const std::string part(1 << 20, 'x');
                       HOLDFAST_CHECKED(sink(std::as_bytes(std::span(part.data(), part.size()))));
                       return Error{Errc::kCancelled, "stopped"};
                     });
  const auto result = failing.write(path);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Errc::kCancelled);
  EXPECT_EQ(std::filesystem::file_size(path), before);
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_FALSE(sample_writer().write(folder + "/absent/m.gguf").has_value());
  std::filesystem::remove_all(folder);
}

TEST(Gguf, Parse_WithVersionsTwoAndThree_ReadsEmptyMetadata) {
  for (const std::uint32_t version : {2u, 3u}) {
    const auto empty = File::from_bytes(Blob().head(0, 0, version).bytes(), "m");
    ASSERT_TRUE(empty.has_value()) << empty.error().what;
    EXPECT_EQ((*empty)->version(), version);
    EXPECT_TRUE((*empty)->keys().empty());
    EXPECT_TRUE((*empty)->tensors().empty());
    const auto one = File::from_bytes(
        Blob().head(1, 0, version).tensor("t", 2, 3, kF32Type, 0).data(24).bytes(), "m");
    ASSERT_TRUE(one.has_value()) << one.error().what;
    EXPECT_EQ((*one)->tensors()[0].data.size(), 24u);
  }
}

TEST(Gguf, Parse_WithEmptyArraysStringsAndScalars_ReadsThem) {
  Blob blob;
  blob.head(1, 2).text("a").u32(9).u32(5).u64(0).key_string("s", "");
  blob.text("scalar").u32(0).u32(kF32Type).u64(0).data(4);
  const auto file = File::from_bytes(blob.bytes(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  EXPECT_EQ((*file)->get_ints("a"), std::vector<std::int64_t>{});
  EXPECT_EQ((*file)->get_string("s"), "");
  EXPECT_EQ((*file)->tensors()[0].elements(), 1u);
}

TEST(Gguf, ScalarTensor_WhenWritten_IsReadBack) {
  Writer writer;
  writer.add_tensor("scalar", TensorType::kF32, {}, [](const Writer::Sink& sink) {
    static const float value[] = {2.5f};
    return sink(std::as_bytes(std::span(value)));
  });
  const auto file = File::from_bytes(writer.to_bytes().value(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  const TensorInfo& tensor = (*file)->tensors()[0];
  EXPECT_EQ(tensor.n_dims, 0u);
  EXPECT_EQ(tensor.elements(), 1u);
  ASSERT_EQ(tensor.data.size(), sizeof(float));
  float value = 0;
  std::memcpy(&value, tensor.data.data(), sizeof value);
  EXPECT_EQ(value, 2.5f);
}

TEST(Gguf, AddTensor_WhenTheShapeDoesNotFitTheType_Dies) {
  Writer writer;
  const auto none = [](const Writer::Sink&) { return Result<void>(); };
  const char* kNote = "a tensor's shape does not fit its type";
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kQ8_0, {33, 2}, none), kNote);
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kF32, {1ull << 40, 1ull << 40}, none), kNote);
}

TEST(Gguf, Bools_WhenWritten_AreReadBack) {
  Writer writer;
  writer.set_bool("no", false);
  writer.set_bool("yes", true);
  writer.set_bools("both", {true, false, true});
  const auto file = File::from_bytes(writer.to_bytes().value(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  EXPECT_EQ((*file)->get_bool("no"), false);
  EXPECT_EQ((*file)->get_bool("yes"), true);
  EXPECT_EQ((*file)->array_type("both"), ValueType::kBool);
  EXPECT_EQ((*file)->get_ints("both"), (std::vector<std::int64_t>{1, 0, 1}));
}

// A conversion that would lose something gives nothing instead.
TEST(Gguf, Getters_WhenAConversionWouldLose_ReturnNothing) {
  Blob blob;
  blob.head(0, 5).text("i32").u32(5).put<std::int32_t>(-5).text("bool").u32(7).put<char>(1);
  blob.text("f64s").u32(9).u32(12).u64(2).put<double>(0.25).put<double>(-1e300);
  blob.text("no f64s").u32(9).u32(12).u64(0).text("no f32s").u32(9).u32(6).u64(0);
  const auto file = File::from_bytes(blob.bytes(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  const File& f = **file;
  EXPECT_EQ(f.get_f64("i32"), -5.0);
  EXPECT_EQ(f.get_bool("i32"), std::nullopt);
  EXPECT_EQ(f.get_bool("bool"), true);
  EXPECT_EQ(f.get_f64("bool"), std::nullopt);
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f.get_f64("f64s"), std::nullopt);
  EXPECT_EQ(f.get_floats("f64s"), (std::vector<float>{0.25f, -infinite}));
  EXPECT_EQ(f.get_ints("f64s"), std::nullopt);
  for (const char* empty : {"no f64s", "no f32s"}) {
    EXPECT_EQ(f.get_floats(empty), std::vector<float>()) << empty;
    EXPECT_EQ(f.get_ints(empty), std::nullopt) << empty;
  }
}

TEST(Gguf, Getters_WhenTheKeyIsAbsent_ReturnNothing) {
  const auto file = File::from_bytes(sample_writer().to_bytes().value(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  const File& f = **file;
  EXPECT_FALSE(f.has("absent"));
  EXPECT_EQ(f.value_type("absent"), std::nullopt);
  EXPECT_EQ(f.value_type("a.u32"), ValueType::kU32);
  EXPECT_EQ(f.get_f64("absent"), std::nullopt);
  EXPECT_EQ(f.get_bool("absent"), std::nullopt);
  EXPECT_EQ(f.get_string("absent"), std::nullopt);
  EXPECT_EQ(f.array_type("absent"), std::nullopt);
  EXPECT_EQ(f.array_size("absent"), 0u);
  EXPECT_EQ(f.array_size("a.u32"), 0u);
  EXPECT_EQ(f.get_floats("absent"), std::nullopt);
  EXPECT_EQ(f.get_ints("absent"), std::nullopt);
  EXPECT_TRUE(f.raw_value("absent").empty());
  EXPECT_EQ(f.raw_value("a.u32").size(), 8u);
}

TEST(Gguf, ValueType_WithEachNumber_HasItsNameAndSize) {
  EXPECT_EQ(value_type_name(ValueType::kU8), "u8");
  EXPECT_EQ(value_type_name(ValueType::kF64), "f64");
  EXPECT_EQ(value_type_name(static_cast<ValueType>(13)), "type 13");
  EXPECT_EQ(scalar_bytes(ValueType::kBool), 1u);
  EXPECT_EQ(scalar_bytes(ValueType::kF64), 8u);
  for (const std::uint32_t none : {8u, 9u, 13u, 0xffffffffu}) {  // text, array, no type
    EXPECT_EQ(scalar_bytes(static_cast<ValueType>(none)), 0u) << none;
  }
}

TEST(Gguf, Integers_WithEverySize_ConvertWithoutLoss) {
  Blob blob;
  blob.head(0, 6);
  blob.text("u8").u32(0).put<std::uint8_t>(255).text("i8").u32(1).put<std::int8_t>(-1);
  blob.text("u16").u32(2).put<std::uint16_t>(65535).text("i16").u32(3).put<std::int16_t>(-2);
  blob.text("u64").u32(10).u64(kHuge).text("f64").u32(12).put<double>(0.1);
  const auto file = File::from_bytes(blob.bytes(), "m");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  const File& f = **file;
  EXPECT_EQ(f.get_i64("u8"), 255);
  EXPECT_EQ(f.get_i64("i8"), -1);
  EXPECT_EQ(f.get_u64("u16"), 65535u);
  EXPECT_EQ(f.get_i64("i16"), -2);
  EXPECT_EQ(f.get_u64("u64"), kHuge);
  EXPECT_EQ(f.get_i64("u64"), std::nullopt);
  EXPECT_EQ(f.get_f64("f64"), 0.1);
  EXPECT_EQ(f.get_bool("u8"), std::nullopt);
}

// ---- files that lie

TEST(BadGguf, Open_WhenThePathIsNoRegularFile_ReturnsIoError) {
  for (const std::string& path :
       {std::string("/nonexistent/m.gguf"), std::string("/tmp"), std::string("/dev/null")}) {
    const auto file = File::open(path);
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, Errc::kIo);
    EXPECT_NE(file.error().what.find(path), std::string::npos);
  }
  const std::string fifo = temp_path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(File::open(fifo).error().code, Errc::kIo);
  EXPECT_NE(File::open(fifo).error().what.find("not a regular file"), std::string::npos);
  std::filesystem::remove(fifo);
}

TEST(BadGguf, Header_WhenMagicIsWrongOrCutShort_IsRefused) {
  expect_invalid(Blob().raw("GGML").u32(3).u64(0).u64(0), "magic at offset 0");
  expect_invalid(Blob(), "only 0 bytes");
  expect_invalid(Blob().raw("GGU"), "only 3 bytes");
  expect_invalid(Blob().raw("GGUF"), "version at offset 4");
  expect_invalid(Blob().raw("GGUF").u32(3), "tensor count at offset 8");
  expect_invalid(Blob().raw("GGUF").u32(3).u64(0), "key count at offset 16");
}

TEST(BadGguf, Version_WhenUnsupportedOrBigEndian_IsRefused) {
  expect_invalid(Blob().head(0, 0, 0), "version at offset 4: 0");
  for (const std::uint32_t version : {1u, 4u, 1000u, 0x03000000u}) {
    EXPECT_EQ(error_of(Blob().head(0, 0, version)).code, Errc::kUnsupported);
  }
  EXPECT_NE(error_of(Blob().head(0, 0, 0x03000000u)).what.find("big-endian"), std::string::npos);
}

TEST(BadGguf, Counts_WhenHuge_AreRefused) {
  expect_invalid(Blob().head(kHuge, 0), "tensor count at offset 8");
  expect_invalid(Blob().head(0, kHuge), "key count at offset 16");
  expect_invalid(Blob().head(kMaxTensors + 1, 0), "limit of 65536");
  expect_invalid(Blob().head(0, kMaxKeys + 1), "limit of 4096");
  expect_invalid(Blob().head(60000, 0), "do not fit");
  expect_invalid(Blob().head(0, 4000), "do not fit");
  expect_invalid(Blob().head(1ull << 63, 1ull << 63), "tensor count");
}

TEST(BadGguf, StringLength_WhenBeyondLimitOrFile_IsRefused) {
  expect_invalid(Blob().head(0, 1).u64(kHuge).raw(std::string(64, 'k')), "limit of 256");
  expect_invalid(Blob().head(0, 1).u64(200).raw(std::string(64, 'k')), "beyond the 64 bytes");
  expect_invalid(Blob().head(0, 1).u64(0).u32(4).u32(1).u32(0), "name is empty");
  expect_invalid(Blob().head(0, 1).text(std::string(257, 'k')).u32(4).u32(1), "limit of 256");
  expect_invalid(Blob().head(0, 1).text("k").u32(8).u64(kHuge), "limit of 1048576");
  expect_invalid(Blob().head(0, 1).text("k").u32(8).u64(9).raw("12345678"), "beyond the 8 bytes");
  expect_invalid(Blob().head(1, 0).u64(kHuge).raw(std::string(64, 't')), "tensor 1 of 1");
}

TEST(BadGguf, ValueType_WhenInvalid_IsRefused) {
  expect_invalid(Blob().head(0, 1).text("k").u32(13).u64(0), "value type 13 is unknown");
  expect_invalid(Blob().head(0, 1).text("k").u32(0xffffffff).u64(0), "is unknown");
  expect_invalid(Blob().head(0, 1).text("key").u32(7).put<std::uint8_t>(2), "bool is 2");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(7).u64(3).raw(std::string("\0\1\3", 3)),
                 "bool is 3");
  expect_invalid(Blob().head(0, 1).text("keyname").u32(10).u32(1), "the file ends inside it");
}

TEST(BadGguf, Array_WhenNestedOrTooLong_IsRefused) {
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(9).u64(1).u32(9).u32(4).u64(0),
                 "array of arrays");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(13).u64(1), "element type 13");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(4).u64(kHuge), "is beyond");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(10).u64((1ull << 61) + 1).u64(0),
                 "is beyond");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(8).u64(2).text("a").u64(5),
                 "array element 1");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(8).u64(1).u64(kHuge), "array element 0");
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(4), "the file ends inside it");
  const std::string long_text(kMaxStringBytes + 1, 'x');
  expect_invalid(Blob().head(0, 1).text("k").u32(9).u32(8).u64(1).text(long_text),
                 "beyond the limit of 1048576");
}

// An array whose elements are read as another type must not be readable.
TEST(BadGguf, Array_WhenReadAsAnotherType_ReturnsNothing) {
  Blob blob;
  blob.head(0, 1).text("tokenizer.ggml.scores").u32(9).u32(0).u64(4).u32(0x01020304);
  const auto file = File::from_bytes(blob.bytes(), "m");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->get_floats("tokenizer.ggml.scores"), std::nullopt);
  EXPECT_EQ((*file)->get_strings("tokenizer.ggml.scores"), std::nullopt);
  EXPECT_EQ((*file)->get_u64("tokenizer.ggml.scores"), std::nullopt);
  EXPECT_EQ((*file)->get_string("tokenizer.ggml.scores"), std::nullopt);
  EXPECT_EQ((*file)->get_ints("tokenizer.ggml.scores"), (std::vector<std::int64_t>{4, 3, 2, 1}));
}

TEST(BadGguf, Alignment_WhenNotAPowerOfTwo_IsRefused) {
  const std::string key = "general.alignment";
  for (const std::uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 8192u, 0x80000000u, 0xffffffffu}) {
    expect_invalid(Blob().head(0, 1).key_u32(key, alignment), "expected a power of two");
  }
  expect_invalid(Blob().head(0, 1).text(key).u32(10).u64(32), "has type u64, expected u32");
  expect_invalid(Blob().head(0, 1).key_string(key, "32"), "has type string");
  const auto wide = File::from_bytes(
      Blob().head(1, 1).key_u32(key, 64).tensor("t", 2, 1, kF32Type, 0).data(8, 64).bytes(), "m");
  ASSERT_TRUE(wide.has_value()) << wide.error().what;
  EXPECT_EQ((*wide)->alignment(), 64u);
  expect_invalid(Blob().head(1, 1).key_u32(key, 64).tensor("t", 2, 1, kF32Type, 32).data(64, 64),
                 "is not a multiple of the alignment 64");
}

TEST(BadGguf, TensorShape_WhenInvalidOrOverflowing_IsRefused) {
  expect_invalid(Blob().head(1, 0).text("t").u32(5).raw(std::string(64, '\1')), "5 dimensions");
  expect_invalid(Blob().head(1, 0).text("t").u32(0xffffffff).raw(std::string(64, '\1')),
                 "dimensions, expected at most 4");
  expect_invalid(Blob().head(1, 0).tensor("t", 0, 4, kF32Type, 0).data(64), "dimension of 0");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 0, kF32Type, 0).data(64), "dimension of 0");
  expect_invalid(Blob().head(1, 0).tensor("t", 255, 1, kQ4_KType, 0).data(256), "multiple of 256");
  expect_invalid(Blob().head(1, 0).tensor("t", 1ull << 62, 4, kF32Type, 0).data(64), "overflows");
  expect_invalid(Blob().head(1, 0).tensor("t", 1ull << 32, 1ull << 32, kF32Type, 0).data(64),
                 "overflows");
  // The bytes fit into 64 bits, the number of elements does not.
  expect_invalid(Blob().head(1, 0).tensor("t", 1ull << 48, 1ull << 16, kQ4_KType, 0).data(64),
                 "overflows");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 1, 99, 0).data(64), "type 99");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 1, 4, 0).data(64), "type 4 is no tensor type");
}

TEST(BadGguf, TensorOffset_WhenInvalid_IsRefused) {
  const Error beyond =
      error_of(Blob().head(1, 0).tensor("blk.0.q", 4, 4, kF32Type, 99968).data(64));
  EXPECT_EQ(beyond.what,
            "open model m.gguf: tensor \"blk.0.q\" at offset 24: data offset 99968 + 64 bytes, "
            "counted from byte 96, is beyond the file's 160 bytes; the file is truncated or "
            "damaged");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 4, kF32Type, 0).data(63), "is beyond");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 4, kF32Type, kHuge - 31).data(64), "is beyond");
  // The start of the data fits into 64 bits, its end wraps around to byte 32.
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 4, kF32Type, kHuge - 127).data(64), "is beyond");
  expect_invalid(Blob().head(1, 0).tensor("t", 4, 4, kF32Type, 16).data(128), "not a multiple");
  const auto two = [](std::uint64_t first, std::uint64_t second) {
    return Blob()
        .head(2, 0)
        .tensor("a", 4, 4, kF32Type, first)
        .tensor("b", 4, 4, kF32Type, second)
        .data(160);
  };
  expect_invalid(two(0, 0), "overlaps the data of tensor");
  expect_invalid(two(0, 32), "overlaps the data of tensor \"a\"");
  expect_invalid(two(64, 32), "overlaps the data of tensor \"b\"");
  EXPECT_TRUE(File::from_bytes(two(64, 0).bytes(), "m").has_value());
  EXPECT_TRUE(File::from_bytes(two(0, 96).bytes(), "m").has_value());
}

TEST(BadGguf, KeyOrTensor_WhenDuplicated_IsRefused) {
  expect_invalid(Blob().head(0, 2).key_u32("k", 1).key_u32("k", 2), "key \"k\" at offset");
  expect_invalid(
      Blob().head(2, 0).tensor("a", 4, 1, kF32Type, 0).tensor("a", 4, 1, kF32Type, 32).data(64),
      "tensor \"a\" at offset");
}

// A hostile name must not reach a log or terminal as it is.
TEST(BadGguf, Name_WhenHostile_IsEscapedInMessages) {
  const Error error = error_of(Blob().head(0, 1).text("\x1b[31m\n\"\xff").u32(77).u64(0));
  EXPECT_NE(error.what.find("key \"\\x1b[31m\\x0a\\\"\\xff\""), std::string::npos) << error.what;
  const Error slash = error_of(Blob().head(0, 1).text("a\\n").u32(77).u64(0));
  EXPECT_NE(slash.what.find("key \"a\\\\n\""), std::string::npos) << slash.what;
}

std::string small_file() {
  Writer writer = sample_writer();
  return writer.to_bytes().value();
}

TEST(BadGguf, File_WhenTruncatedAnywhere_IsRefused) {
  const std::string whole = small_file();
  const auto file = File::from_bytes(whole, "m");
  ASSERT_TRUE(file.has_value());
  const TensorInfo& last = (*file)->tensors().back();
  const std::size_t padding = (32 - last.data.size() % 32) % 32;  // after the last tensor
  for (std::size_t n = 0; n < whole.size() - padding; ++n) {
    const auto cut = File::from_bytes(whole.substr(0, n), "m");
    ASSERT_FALSE(cut.has_value()) << "cut at " << n;
    EXPECT_EQ(cut.error().code, Errc::kFileInvalid) << cut.error().what;
  }
}

/// Reads everything that an accepted file offers.
std::uint64_t use_all(const File& file) {
  std::uint64_t sum = 0;
  for (const std::string& key : file.keys()) {
    sum += file.get_u64(key).value_or(0) + file.raw_value(key).size();
    sum += file.get_string(key).value_or("").size();
    const auto strings = file.get_strings(key);
    for (std::size_t i = 0; strings && i < strings->size(); ++i) sum += (*strings)[i].size();
    sum += file.get_floats(key).value_or(std::vector<float>()).size();
    sum += file.get_ints(key).value_or(std::vector<std::int64_t>()).size();
  }
  for (const TensorInfo& tensor : file.tensors()) {
    for (const std::byte b : tensor.data) sum += std::to_integer<std::uint64_t>(b);
  }
  return sum;
}

TEST(BadGguf, Parse_WhenAnyBitIsFlipped_DoesNotCrash) {
  const std::string whole = small_file();
  std::uint64_t sum = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto file = File::from_bytes(std::move(flipped), "m");
    if (file) sum += use_all(**file);
  }
  EXPECT_GT(sum, 0u);
}

// Every byte of the header is set to 0x00, 0x7f, 0x80 and 0xff: lengths and counts become huge.
TEST(BadGguf, Parse_WhenAnyByteIsExtreme_DoesNotCrash) {
  const std::string whole = small_file();
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      const auto file = File::from_bytes(std::move(changed), "m");
      if (file) sum += use_all(**file);
    }
  }
  EXPECT_GT(sum, 0u);
}

TEST(Gguf, Open_WithTheDemoModel_ReadsItsMetadata) {
  const auto file = File::open(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().what;
  EXPECT_EQ((*file)->get_string("general.architecture"), "llama");
  EXPECT_EQ((*file)->get_strings("tokenizer.ggml.tokens")->size(), 1024u);
  EXPECT_EQ((*file)->tensors().size(), 47u);
}

}  // namespace
}  // namespace holdfast::gguf::reader_test
