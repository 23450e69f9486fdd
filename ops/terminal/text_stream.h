#pragma once
// Follows a request and turns its tokens into text: `run`, `requests tail`.

#include <optional>
#include <string>
#include <vector>

#include "ops/terminal/call.h"
#include "shared/client/client.h"
#include "shared/wire/prompt_scores.h"

namespace holdfast::cli {

/// The output of one choice; an embedding has a vector instead of text.
struct StreamedChoice {
  std::string text;
  std::vector<wire::TokenId> ids;
  std::string vector;  // of an embedding: wire::vector_text
  std::optional<wire::PromptScores> scores;
};

/// A request that has ended, and all of its output.
struct Streamed {
  wire::RequestInfo info;
  std::vector<StreamedChoice> choices;
};

/// Streams the request from index 0 to its end. With `print`, the text of a single choice goes to
/// stdout as it is released; several choices are printed one after the other, each when it is
/// whole.
client::Answer<Streamed> follow(client::Client& client, const wire::RequestInfo& info, bool print);

/// The result as JSON, for --json.
std::string streamed_json(const Streamed& streamed);

/// Returns kExitDone if the request succeeded; else says on stderr how it ended.
int report_end(const Call& call, const Streamed& streamed);

/// Makes SIGINT and SIGTERM cancel the request (its stream then ends by itself); a second one ends
/// this process. To be constructed before other threads exist: it blocks the two signals.
class CancelOnSignal {
 public:
  CancelOnSignal();
  void arm(client::Client& client, const std::string& request_id);
};

}  // namespace holdfast::cli
