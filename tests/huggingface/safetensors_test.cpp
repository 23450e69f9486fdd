// Goal: a *.safetensors header that lies is refused with the reason, in bounded time and memory,
// and nothing outside of the file is ever read. Method: one honest file; then one lie at a time;
// then the honest file cut at every byte.

#include "shared/huggingface/safetensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/huggingface/json_file.h"
#include "tests/huggingface/temp_folder.h"

namespace holdfast::huggingface::safetensors_test {
namespace {

using huggingface_test::safetensors;

constexpr const char* kHonest =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

TEST(Safetensors, Open_WithAValidFile_ReturnsItsTensors) {
  const huggingface_test::TempFolder folder;
  folder.write("m", safetensors(kHonest, std::string(32, '\1')));
  const auto file = Safetensors::open(folder.at("m"));
  ASSERT_TRUE(file.has_value()) << file.error().what;
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const StoredTensor& a = (*file)->tensors().at("a");
  EXPECT_EQ(a.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(a.data.size(), 24u);
  EXPECT_EQ((*file)->tensors().at("b").data.data(), a.data.data() + 24);
}

TEST(Safetensors, Header_WhenItLies_IsRefused) {
  const huggingface_test::TempFolder folder;
  const auto entry = [](const std::string& tensor) { return R"({"a":)" + tensor + "}"; };
  const std::pair<std::string, const char*> kLies[] = {
      {entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,28]})"), "for its shape"},
      {entry(R"({"dtype":"F16","shape":[2,3],"data_offsets":[0,24]})"), "for its shape"},
      {entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[16,40]})"), "within the 32 bytes"},
      {entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[24,0]})"), "within the 32 bytes"},
      {entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[-8,16]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0]})"), "data_offsets"},
      {entry(R"({"dtype":"F32","shape":[-2,3],"data_offsets":[0,24]})"), "whole number"},
      {entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), "2^64"},
      {entry(R"({"dtype":"F32","shape":[1,1,1,2,3],"data_offsets":[0,24]})"), "5 dimensions"},
      {entry(R"({"dtype":"X9","shape":[2,3],"data_offsets":[0,24]})"), "unknown dtype"},
      {entry(R"({"shape":[2,3],"data_offsets":[0,24]})"), "no dtype"},
      {entry(R"(7)"), "no object"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
       R"("b":{"dtype":"F32","shape":[4],"data_offsets":[12,28]}})",
       "overlaps"},
      {"[]", "JSON object"},
      {"{", "not valid JSON"},
      {std::string(1000, '[') + std::string(1000, ']'), "nested"},
      {"{\"\xff\":1}", "not valid JSON"},
  };
  for (const auto& [header, wrong] : kLies) {
    folder.write("m", safetensors(header, std::string(32, '\1')));
    const auto file = Safetensors::open(folder.at("m"));
    ASSERT_FALSE(file.has_value()) << header;
    EXPECT_EQ(file.error().code, Errc::kFileInvalid) << header;
    EXPECT_NE(file.error().what.find(wrong), std::string::npos) << file.error().what;
  }
}

TEST(Safetensors, HeaderLength_WhenInvalidOrCutShort_IsRefused) {
  const huggingface_test::TempFolder folder;
  for (const std::uint64_t length :
       {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{200}}) {
    folder.write("m", std::string(reinterpret_cast<const char*>(&length), 8) + kHonest);
    const auto file = Safetensors::open(folder.at("m"));
    ASSERT_FALSE(file.has_value());
    EXPECT_NE(file.error().what.find("no header's length"), std::string::npos) << file.error().what;
  }
  const std::string whole = safetensors(kHonest, std::string(32, '\1'));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    folder.write("m", whole.substr(0, n));
    EXPECT_FALSE(Safetensors::open(folder.at("m")).has_value()) << n;
  }
  EXPECT_EQ(Safetensors::open(folder.at("none")).error().code, Errc::kIo);
  EXPECT_EQ(Safetensors::open(folder.at("")).error().code, Errc::kIo);
}

TEST(JsonFile, JsonFile_WhenSizeOrDepthExceedsBounds_IsRefused) {
  const huggingface_test::TempFolder folder;
  folder.write("m", std::string(100, ' '));
  EXPECT_EQ(read_text(folder.at("m"), 99).error().code, Errc::kFileInvalid);
  EXPECT_TRUE(read_text(folder.at("m"), 100).has_value());
  EXPECT_EQ(read_text(folder.at("none"), 100).error().code, Errc::kIo);
  // Brackets in strings do not count, however escaped.
  EXPECT_TRUE(parse_object("{\"a\":\"" + std::string(500, '[') + "\\\"[\"}", "x").has_value());
}

}  // namespace
}  // namespace holdfast::huggingface::safetensors_test
