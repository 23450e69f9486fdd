// Goal: who uses a header reads what a declaration does there, not in the .cpp: types and functions
// have a doc comment. Method: counts the declarations of each module's headers and those with a
// comment (declarations.h); a module below its bound is listed with what lacks one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/tidy/declarations.h"
#include "tests/tidy/source_tree.h"

namespace holdfast::tidy::api_docs_test {
namespace {

constexpr std::size_t kPercentMin = 95;
constexpr std::size_t kNamedMax = 20;
constexpr const char* kAll = "all headers";

bool is_counted(const std::string& path) {
  const std::vector<std::string> parts = {"shared/", "control/", "worker/", "ops/"};
  return ends_with(path, ".h") &&
         std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return starts_with(path, part); });
}

/// The part that programs with the SDK include: there methods count too.
bool is_sdk(const std::string& path) {
  return starts_with(path, "shared/base/") || starts_with(path, "shared/client/");
}

/// Returns the folder of the library, "shared/base", "worker/backend/cpu".
std::string module_of(const std::string& path) {
  const std::string backends = "worker/backend/";
  const bool is_backend =
      starts_with(path, backends) && path.find('/', backends.size()) != std::string::npos;
  std::size_t end = path.find('/', path.find('/') + 1);
  if (is_backend) end = path.find('/', end + 1);
  return path.substr(0, end);
}

/// The declarations of one module, or of all.
struct Count {
  std::size_t all = 0;
  std::size_t documented = 0;
  Findings undocumented;  // the first kNamedMax

  void add(const std::string& path, const Declaration& declaration) {
    ++all;
    if (declaration.documented) {
      ++documented;
    } else if (all - documented <= kNamedMax) {
      undocumented.add(path, declaration.line, declaration.text);
    }
  }
  std::size_t percent() const { return all == 0 ? 100 : documented * 100 / all; }
};

/// Returns the counts by module and of all, which are kAll's.
std::map<std::string, Count> counts(Findings& findings) {
  std::map<std::string, Count> counts;
  for (const Source& source : cpp_sources()) {
    if (!is_counted(source.path)) continue;
    const Counted counted =
        is_sdk(source.path) ? Counted::kNamespaceScopeAndMethods : Counted::kNamespaceScope;
    for (const Declaration& declaration : declarations_of(source, counted, findings)) {
      counts[module_of(source.path)].add(source.path, declaration);
      counts[kAll].add(source.path, declaration);
    }
  }
  return counts;
}

TEST(ApiDocs, Declarations_OfEachModuleAndOfAll_HaveDocComments) {
  Findings findings;
  const std::map<std::string, Count> found = counts(findings);
  EXPECT_TRUE(findings.empty()) << findings.str();
  EXPECT_GT(found.at(kAll).all, 1500u) << "the headers have another form";
  for (const auto& [module, count] : found) {
    EXPECT_GE(count.percent(), kPercentMin)
        << module << ": " << count.documented << " of " << count.all
        << " declarations have a doc comment (/// above or // at the end of the line). Without:"
        << count.undocumented.str();
  }
}

/// Returns the texts of what is found, "+ " before those with a comment.
std::vector<std::string> found_in(const std::vector<std::string>& lines,
                                  Counted counted = Counted::kNamespaceScope) {
  Findings findings;
  std::vector<std::string> out;
  for (const Declaration& one : declarations_of({"x.h", lines}, counted, findings)) {
    out.push_back((one.documented ? "+ " : "- ") + one.text);
  }
  EXPECT_TRUE(findings.empty()) << findings.str();
  return out;
}

using Texts = std::vector<std::string>;

TEST(ApiDocs, Finder_WithCommentAboveOrAtTheEnd_SaysDocumented) {
  EXPECT_EQ(
      found_in({"// The file.", "", "int a();", "/// Does b.", "int b();", "", "template <class T>",
                "int c(T x,", "      T y);  // does c", "int d() {", "  return 1;  // why", "}"}),
      (Texts{"- int a()", "+ int b()", "+ template <class T> int c(T x, T y)", "- int d()"}));
}

TEST(ApiDocs, Finder_WithGroup_EndsItAtBlankLinesDirectivesAndLongTypes) {
  EXPECT_EQ(
      found_in({"/// Both.", "int a();", "inline int b() {", "  return 1;", "}", "int c();", "",
                "int d();", "/// Short ones.", "struct E {};", "struct F {};", "/// Long.",
                "struct G {", "  int x = 0;", "};", "int h();", "/// I.", "#define I", "int i();"}),
      (Texts{"+ int a()", "+ inline int b()", "+ int c()", "- int d()", "+ struct E", "+ struct F",
             "+ struct G", "- int h()", "- int i()"}));
}

TEST(ApiDocs, Finder_AtNamespaceScope_CountsTypesAndFunctionsAlone) {
  EXPECT_EQ(
      found_in({"namespace n {", "class Forward;", "using F = std::function<void(int)>;",
                "constexpr int kX = f(1);", "inline const std::map<int, int> kM = {{1, 2}};",
                "HOLDFAST_MACRO(1, 2)", "static_assert(sizeof(int) == 4);",
                "enum class E : int { kA, kB };", "class [[nodiscard]] C final : public B {",
                " public:", "  int method() const { return f(); }", "};",
                "[[nodiscard]] bool operator<(const A& a, const A& b);",
                "inline int C::defined() { return 1; }",
                "void g(O options = {}, std::function<void()> done = {});", "}  // namespace n"}),
      (Texts{"- enum class E : int", "- class [[nodiscard]] C final : public B",
             "- [[nodiscard]] bool operator<(const A& a, const A& b)",
             "- void g(O options = {}, std::function<void()> done = {})"}));
}

TEST(ApiDocs, Finder_WithMethods_CountsPublicOnesThatAreDeclaredHere) {
  EXPECT_EQ(found_in({"/// C.",
                      "class C : public B {",
                      "  int hidden();",
                      " public:",
                      "  explicit C(int a) : a_{a}, b_(a) { run(); }",
                      "  ~C();",
                      "  C& operator=(const C&) = delete;",
                      "  int get() const { return a_; }",
                      "  /// Sets it.",
                      "  void set(int a);",
                      "  void run() override;",
                      "  struct Inner {",
                      "    int deep();",
                      "  };",
                      " private:",
                      "  int more();",
                      "};",
                      "/// S.",
                      "struct S {",
                      "  bool empty() const { return true; }",
                      "};"},
                     Counted::kNamespaceScopeAndMethods),
            (Texts{"+ class C : public B", "- int get() const", "+ void set(int a)", "+ struct S",
                   "- bool empty() const"}));
}

TEST(ApiDocs, Finder_WithBracesThatDoNotBalance_ReportsTheFile) {
  Findings findings;
  declarations_of({"x.h", {"namespace n {", "int a();"}}, Counted::kNamespaceScope, findings);
  EXPECT_EQ(findings.str(), "\n  x.h: has braces that do not balance");
}

}  // namespace
}  // namespace holdfast::tidy::api_docs_test
