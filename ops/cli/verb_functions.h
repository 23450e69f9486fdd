#pragma once
// The verbs of the table, by group. Each returns the exit code and prints its own errors.

#include "ops/terminal/call.h"

namespace holdfast::cli {

// status.cpp
int status(const Call& call);

// chat.cpp
int chat(const Call& call);
// chats.cpp
int chats_list(const Call& call);
int chats_show(const Call& call);
int chats_remove(const Call& call);
// migrate.cpp
int migrate_from(const Call& call);

// doctor.cpp
int doctor(const Call& call);

// completion.cpp
int completion(const Call& call);
// complete.cpp
int complete(const Call& call);
// man.cpp
int man(const Call& call);
// help.cpp
int help(const Call& call);
int version(const Call& call);

// workers.cpp
int queue_stats(const Call& call);
int keys_create(const Call& call);
int keys_list(const Call& call);
int keys_update(const Call& call);
int keys_revoke(const Call& call);
// ha.cpp
int ha_status(const Call& call);
int ha_switch(const Call& call);
int ha_promote(const Call& call);
// peer_keys.cpp
int keys_node_create(const Call& call);
int keys_node_revoke(const Call& call);
int keys_gateway_create(const Call& call);
int keys_gateway_revoke(const Call& call);
int keys_client_create(const Call& call);
int keys_client_revoke(const Call& call);
int keys_peers(const Call& call);
// webhooks.cpp
int webhooks_create(const Call& call);
int webhooks_list(const Call& call);
int webhooks_delete(const Call& call);
int webhooks_secret(const Call& call);
int webhooks_deliveries(const Call& call);
int webhooks_retry(const Call& call);
int queue_pause(const Call& call);
int queue_resume(const Call& call);
int nodes_list(const Call& call);
int nodes_show(const Call& call);
int nodes_drain(const Call& call);
int nodes_resume(const Call& call);
int workers_list(const Call& call);
int workers_drain(const Call& call);
int workers_resume(const Call& call);

// models.cpp
int models_list(const Call& call);
int models_found(const Call& call);
int models_show(const Call& call);
int models_add(const Call& call);
int models_remove(const Call& call);
int models_load(const Call& call);
int models_pin(const Call& call);
int models_unpin(const Call& call);
int models_unload(const Call& call);

// pull.cpp
int pull_model(const Call& call);
int jobs_list(const Call& call);
int jobs_show(const Call& call);
int jobs_cancel(const Call& call);
int jobs_tail(const Call& call);

// verify.cpp
int models_verify(const Call& call);
// aliases.cpp
int models_alias(const Call& call);

// requests.cpp
int requests_list(const Call& call);
int requests_show(const Call& call);
int requests_cancel(const Call& call);
int requests_requeue(const Call& call);
int requests_move(const Call& call);
int requests_tail(const Call& call);

// config.cpp
int config_list(const Call& call);
int config_get(const Call& call);
int config_set(const Call& call);
int config_unset(const Call& call);
int config_explain(const Call& call);
int config_history(const Call& call);
int config_diff(const Call& call);
int config_rollback(const Call& call);

// db.cpp
int db_check(const Call& call);
int db_backup(const Call& call);
int db_restore(const Call& call);
int db_stats(const Call& call);

// tools.cpp
int inspect(const Call& call);
int tokenize(const Call& call);
int detokenize(const Call& call);
int synth_model(const Call& call);
// embed.cpp
int embed(const Call& call);

// model_verbs.cpp
int quantize_model(const Call& call);
int convert(const Call& call);

// engine_verbs.cpp
int logits(const Call& call);
int perplexity(const Call& call);
int bench(const Call& call);
int bench_compare(const Call& call);

// render_chat.cpp
int render_chat(const Call& call);

}  // namespace holdfast::cli
