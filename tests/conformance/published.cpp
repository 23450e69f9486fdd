#include "tests/conformance/published.h"

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace holdfast::test {

std::filesystem::path published_root() {
  const char* dir = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  return std::filesystem::path(dir != nullptr ? dir
                                              : HOLDFAST_SOURCE_DIR "/../shared/conformance") /
         "chat";
}

std::map<std::string, std::string> published_templates() {
  std::map<std::string, std::string> found;
  if (!std::filesystem::exists(published_root())) return found;
  for (const auto& entry : std::filesystem::directory_iterator(published_root())) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    found[entry.path().filename().string()] = text.str();
  }
  return found;
}

std::vector<std::string> controls_of(const std::string& source) {
  std::set<std::string> found;
  const std::regex looks(
      R"(<\|[A-Za-z_]+\|?>|<[a-z_]+\|>|<(start|end)_of_turn>|\[/?[A-Z_]+\]|<｜[^>]+｜>|)"
      R"(\[gMASK\]|<sop>|</?s>)");
  for (std::sregex_iterator it(source.begin(), source.end(), looks), end; it != end; ++it) {
    found.insert(it->str());
  }
  return {found.begin(), found.end()};
}

}  // namespace holdfast::test
