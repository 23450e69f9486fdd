#pragma once
// The verbs pulls.start and pulls.cancel as changes of a row: an object of the kind "pull", whose
// id is the model's name, so that a model is pulled once however many ask (shared/pull/job.h).
// Pure.

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "control/core/rows.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The change of a row that a verb makes.
struct PullChange {
  std::string body;     // empty: the row stays as it is
  bool fresh = false;   // the row begins again
  bool joined = false;  // another had begun it
};

/// True for the verbs that are here.
bool changes_pulls(std::string_view verb);

/// Returns the id of the row that the arguments name: "name", or what the source is called.
/// A refusal: the source cannot be read, or the name cannot be one.
std::variant<std::string, wire::Refusal> pull_id(const nlohmann::json& args);

/// Decides on the row `now`. `model_path`: the path of the registered model of that name, if there
/// is one. A refusal: another source is being pulled to this name (kConflict), the name belongs to
/// a model that was not pulled (kConflict), there is no such pull (kNotFound).
std::variant<PullChange, wire::Refusal> change_pull(std::string_view verb,
                                                    const nlohmann::json& args,
                                                    const std::optional<core::ObjectRow>& now,
                                                    const std::optional<std::string>& model_path);

/// Returns the document of a pull's row for people and clients.
nlohmann::json pull_document(const core::ObjectRow& row);

}  // namespace holdfast::daemon
