// Goal: a module finds the headers of what it links and of nothing else, so that an include across
// the layers does not compile. Method: the include directories of each source in the build's
// compile commands.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace holdfast::tidy::layers_test {
namespace {

/// The modules whose headers each module's sources find, by "control.core"; from build/rooms/ROOM.
std::map<std::string, std::set<std::string>> modules_visible() {
  std::ifstream file(HOLDFAST_BUILD_DIR "/compile_commands.json");
  std::stringstream text;
  text << file.rdbuf();
  const std::string commands = text.str();
  std::map<std::string, std::set<std::string>> visible;
  const std::regex include(HOLDFAST_BUILD_DIR "/rooms/([a-z_.]+)");
  const std::regex source("#include \"" HOLDFAST_SOURCE_DIR "/([a-z_/]+)/[a-z_0-9]+\\.cpp\"");
  std::size_t at = 0;
  while ((at = commands.find("\"command\": \"", at)) != std::string::npos) {
    const std::size_t end = commands.find('\n', at);
    const std::string command = commands.substr(at, end - at);
    const std::size_t file_at = commands.find("\"file\": \"", end) + 9;
    std::string path = commands.substr(file_at, commands.find('"', file_at) - file_at);
    at = end;
    if (path.ends_with(".cxx")) {  // several sources as one: all of one module
      std::ifstream unit(path);
      std::stringstream lines;
      lines << unit.rdbuf();
      std::smatch first;
      const std::string unit_text = lines.str();
      if (!std::regex_search(unit_text, first, source)) continue;
      path = HOLDFAST_SOURCE_DIR "/" + first[1].str() + "/x.cpp";
    }
    // Tests and tools compile some sources once more, and see the whole tree.
    if (command.find("-I" HOLDFAST_SOURCE_DIR " ") != std::string::npos) continue;
    const std::string root = HOLDFAST_SOURCE_DIR "/";
    if (!path.starts_with(root)) continue;
    std::string module = path.substr(root.size(), path.rfind('/') - root.size());
    std::replace(module.begin(), module.end(), '/', '.');
    for (std::sregex_iterator it(command.begin(), command.end(), include), none; it != none; ++it) {
      visible[module].insert((*it)[1]);
    }
  }
  return visible;
}

TEST(Layers, Modules_InTheBuild_SeeNothingAboveThem) {
  const auto visible = modules_visible();
  const std::multimap<std::string, std::string> hidden = {
      {"shared.base", "shared.wire"},
      {"shared.wire", "control.core"},
      {"shared.client", "control.core"},
      {"control.core", "control.store"},
      {"control.core", "control.daemon"},
      {"control.store", "control.objects"},
      {"control.objects", "control.operator"},
      {"control.endpoints", "control.operator"},
      {"control.operator", "control.daemon"},
      {"control.daemon", "control.gateway.http"},
      {"control.daemon", "worker.engine"},
      {"control.gateway.http", "control.gateway.common"},
      {"control.gateway.common", "control.gateway.openai"},
      {"control.gateway.openai", "control.gateway.anthropic"},
      {"control.gateway.ollama", "control.gateway.responses"},
      {"control.gateway.objects", "control.gateway.responses"},
      {"control.gateway", "control.core"},
      {"worker.model", "worker.backend.api"},
      {"worker.backend.cpu", "worker.backend.opencl"},
      {"worker.backend.cpu", "worker.engine"},
      {"worker.engine", "worker.link"},
      {"worker.engine", "control.core"},
      {"shared.remote", "ops.terminal"},
      {"ops.terminal", "ops.serve"},
      {"ops.serve", "ops.cli"},
      {"ops.model_tools", "worker.engine"},
  };
  for (const auto& [module, other] : hidden) {
    ASSERT_TRUE(visible.contains(module)) << module << ": no source of it in the compile commands";
    EXPECT_FALSE(visible.at(module).contains(other)) << module << " sees " << other;
    EXPECT_TRUE(visible.at(module).contains(module)) << module << " does not see itself";
  }
}

}  // namespace
}  // namespace holdfast::tidy::layers_test
