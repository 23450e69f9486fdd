#pragma once
// The C library, opened at run time: one addon works with every libholdfast.so.0, and says it where
// there is none.

#include <string>

#include "shared/sdk/holdfast.h"

namespace holdfast::node {

/// Functions of the C library, each by its name there without `holdfast_`.
struct Library {
  decltype(&holdfast_version) version;
  decltype(&holdfast_interface) interface;
  decltype(&holdfast_error_code) error_code;
  decltype(&holdfast_error_message) error_message;
  decltype(&holdfast_error_retry_after_ms) error_retry_after_ms;
  decltype(&holdfast_error_free) error_free;
  decltype(&holdfast_free) free;
  decltype(&holdfast_open) open;
  decltype(&holdfast_close) close;
  decltype(&holdfast_stop_server) stop_server;
  decltype(&holdfast_submit) submit;
  decltype(&holdfast_status) status;
  decltype(&holdfast_cancel) cancel;
  decltype(&holdfast_attach) attach;
  decltype(&holdfast_next) next;
  decltype(&holdfast_detach) detach;
  decltype(&holdfast_models) models;
  decltype(&holdfast_add) add;
  decltype(&holdfast_load) load;
  decltype(&holdfast_unload) unload;
  decltype(&holdfast_remove) remove;
};

/// Returns the library: that of HOLDFAST_LIBRARY, else the one beside the addon, else where the
/// system's linker finds it. nullptr if there is none or it is too old; `why` then says it. Loaded
/// once, from any thread, and never unloaded: its threads may outlive every environment.
const Library* library(std::string* why);

}  // namespace holdfast::node
