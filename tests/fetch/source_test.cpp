// Goal: a source is read as a person means it, has one form, and nothing odd gets through. Method:
// tables of texts.
#include "shared/pull/source.h"

#include <gtest/gtest.h>

#include "shared/base/url.h"

namespace holdfast::test::source_test {
namespace {

using pull::parse_source;

std::string form_of(const std::string& text) {
  const auto source = parse_source(text);
  return source ? pull::to_text(*source) : "refused: " + source.error().what;
}

std::string name_of(const std::string& text) {
  const auto source = parse_source(text);
  return source ? pull::default_name(*source) : "refused";
}

TEST(Source, Texts_OfEachKind_HaveOneFormAndAName) {
  const std::string hash(64, 'a');
  const struct {
    std::string text, form, name;
  } cases[] = {
      {"hf.co/org/Repo-GGUF:Q4_K_M", "hf.co/org/Repo-GGUF:Q4_K_M", "repo-q4_k_m"},
      {"hf:org/Repo", "hf.co/org/Repo", "repo"},
      {"https://huggingface.co/org/Repo@v1.0", "hf.co/org/Repo@v1.0", "repo"},
      {"hf.co/o/r:sub/My-Q8_0.gguf", "hf.co/o/r:sub/My-Q8_0.gguf", "my-q8_0"},
      {"ollama://llama3.2:1b", "ollama://registry.ollama.ai/library/llama3.2:1b", "llama3.2:1b"},
      {"ollama://llama3.2", "ollama://registry.ollama.ai/library/llama3.2:latest", "llama3.2"},
      {"ollama://me/mine:x", "ollama://registry.ollama.ai/me/mine:x", "mine:x"},
      {"oci://ghcr.io/org/model@sha256:" + hash, "oci://ghcr.io/org/model@sha256:" + hash, "model"},
      {"oci://127.0.0.1:5000/m:v2", "oci://127.0.0.1:5000/m:v2", "m:v2"},
      {"https://h.example/a/B.gguf#SHA256=" + hash, "https://h.example/a/B.gguf#sha256=" + hash,
       "b"},
      {"http://127.0.0.1:9/m.gguf?x=1", "http://127.0.0.1:9/m.gguf?x=1", "m"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(form_of(c.text), c.form);
    EXPECT_EQ(name_of(c.text), c.name) << c.text;
    EXPECT_EQ(form_of(c.form), c.form) << "the form is its own form";
  }
}

TEST(Source, Text_ThatIsOdd_IsRefusedWithWhatIsExpected) {
  for (const char* text : {"",
                           "llama3",
                           "hf.co/onlyone",
                           "hf.co/a/../b",
                           "hf.co/a/b:Q4 K",
                           "hf.co//b",
                           "http://example.com/m.gguf",
                           "http://127.evil.com/m.gguf",
                           "http://localhost.evil/m.gguf",
                           "https://user:pw@example.com/m.gguf",
                           "https://example.com/m.zip",
                           "https:///m.gguf",
                           "https://example.com/m.gguf#md5=aa",
                           "https://example.com/a b.gguf",
                           "ftp://h/m.gguf",
                           "ollama://",
                           "ollama://a b",
                           "oci://host",
                           "oci://../x/y",
                           "ollama://../x",
                           "oci://host/../x",
                           "oci://h/m@sha256:12",
                           "file:///etc/passwd"}) {
    const auto source = parse_source(text);
    ASSERT_FALSE(source) << text;
    EXPECT_EQ(source.error().code, Errc::kUsage) << text;
    EXPECT_NE(source.error().what.find("expected"), std::string::npos) << source.error().what;
  }
}

TEST(Source, PlainPath_OfOddParts_IsRefused) {
  EXPECT_TRUE(pull::is_plain_path("a/b-c/d_e.gguf"));
  for (const char* path :
       {"", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a\\b", "a b", "a\n"}) {
    EXPECT_FALSE(pull::is_plain_path(path)) << path;
  }
}

TEST(Url, Host_OfAnyForm_IsTakenAndJudged) {
  EXPECT_EQ(url_host("https://h.example:8443/p?q#f"), "h.example");
  EXPECT_EQ(url_host("http://[::1]:9/x"), "::1");
  EXPECT_EQ(url_host("127.0.0.1:5000"), "127.0.0.1");
  for (const char* local :
       {"http://127.0.0.1:1", "https://[::1]:1/x", "http://localhost", "127.9.9.9"})
    EXPECT_TRUE(is_loopback_url(local)) << local;
  for (const char* other :
       {"http://example.com", "http://127.example.com", "http://localhost.x", "http://10.0.0.127"})
    EXPECT_FALSE(is_loopback_url(other)) << other;
}

}  // namespace
}  // namespace holdfast::test::source_test
