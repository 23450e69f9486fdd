#include "ops/cli/engine_open.h"

#include <unistd.h>

#include <cstdio>

namespace holdfast::cli {

void show_share(const char* what, double done) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, done < 1 ? "\r\033[K%s %3.0f%%" : "\r\033[K", what, 100 * done);
}

engine::EngineOptions engine_options(const EngineChoice& choice) {
  engine::EngineOptions o;
  o.device = choice.device;
  o.kernels = choice.kernels;
  o.threads = choice.threads;
  o.kv_type = choice.kv_type;
  o.cache_dir = choice.cache_dir;
  o.progress = [](double done) { show_share("loading", done); };
  return o;
}

Result<std::unique_ptr<engine::Engine>> open_chosen(const EngineChoice& choice,
                                                    const engine::EngineOptions& options) {
  auto opened = engine::open_engine(choice.file, options);
  show_share("loading", 1);
  return opened;
}

}  // namespace holdfast::cli
