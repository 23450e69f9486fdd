// Goal: a vector comes back with the same bits, and nothing else is taken for one.
// Method: the examples of RFC 4648; random bits, NaN and infinities among them; damaged texts.
#include "shared/wire/vector_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "shared/base/base64.h"

namespace holdfast::wire::vector_text_test {
namespace {

TEST(VectorText, Base64_WithRfc4648Examples_Matches) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) EXPECT_EQ(to_base64(bytes), text);
  EXPECT_EQ(to_base64("\xfb\xff\xfe"), "+//+");
}

TEST(VectorText, EmbeddingVector_AfterRoundTrip_IsBitIdentical) {
  std::mt19937 random(5);
  for (std::size_t n = 1; n < 40; ++n) {
    std::vector<float> vector(n);
    for (float& v : vector) {
      const auto bits = static_cast<std::uint32_t>(random());
      std::memcpy(&v, &bits, sizeof v);
    }
    vector[0] = n % 2 == 0 ? -0.0F : INFINITY;
    const std::vector<float> back = read_vector(vector_text(vector));
    ASSERT_EQ(back.size(), n);
    EXPECT_EQ(std::memcmp(back.data(), vector.data(), n * sizeof(float)), 0);
  }
}

TEST(VectorText, EmbeddingVector_WhenDamaged_ReadsAsEmpty) {
  const std::string good = vector_text({1.0F, 2.0F});
  ASSERT_EQ(read_vector(good), (std::vector<float>{1.0F, 2.0F}));
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_TRUE(read_vector(good.substr(0, i)).empty()) << i;
    std::string damaged = good;
    damaged[i] = '!';
    EXPECT_TRUE(read_vector(damaged).empty()) << damaged;
  }
  for (const char* text :
       {"", "{}", R"({"embedding":""})", R"({"embedding":"AAA="})", R"({"embedding":"AA==AAAA"})",
        R"({"embedding":"=AAA"})", R"({"logprob":0,"top":[]})"}) {
    EXPECT_TRUE(read_vector(text).empty()) << text;
  }
}

}  // namespace
}  // namespace holdfast::wire::vector_text_test
