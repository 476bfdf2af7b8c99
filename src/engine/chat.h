// The inside of the public conversations (sparkx/chat.hpp).
#pragma once

#include "sparkx/chat.hpp"
#include "text/chat_template.h"

namespace sparkx {

// Renders a request with its own template or one of `format`. Throws what sparkx/chat.hpp says.
jinja::Rendered render_request(const ChatRequest& request, const ChatFormat& format);

}  // namespace sparkx
