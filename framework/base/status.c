// framework/base/status.c - thread-local error message, in a fixed buffer
#include "framework/base/status.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#undef bt_error
#undef bt_error_context

static _Thread_local char message[BT_ERROR_CAPACITY];
static _Thread_local int quiet; // depth of bt_error_quiet_begin

// Messages contain names from files: replaces characters that could control a terminal by '?': the
// ASCII control characters except tab and newline, and U+0080 to U+009F.
static void disarm(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; ++at) {
        if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
            *at++ = '?';
            *at = '?';
        } else if ((*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7f) {
            *at = '?';
        }
    }
}

BT_PRINTF(2, 0)
static void print(char text[BT_ERROR_CAPACITY], const char *format, va_list arguments)
{
    (void)vsnprintf(text, BT_ERROR_CAPACITY, format, arguments);
    disarm(text);
}

bt_status bt_error(bt_status status, const char *format, ...)
{
    if (quiet) {
        return status == BT_OK ? BT_STATUS_INTERNAL : status;
    }
    // Formatted into a separate buffer first: an argument may point into the current message.
    char text[BT_ERROR_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    print(text, format, arguments);
    va_end(arguments);
    memcpy(message, text, sizeof text);
    return status == BT_OK ? BT_STATUS_INTERNAL : status;
}

bt_status bt_error_context(bt_status status, const char *format, ...)
{
    if (status == BT_OK || quiet) {
        return status;
    }
    char text[BT_ERROR_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    print(text, format, arguments);
    va_end(arguments);
    char old[BT_ERROR_CAPACITY];
    memcpy(old, message, sizeof old);
    // The cause matters more than the context: if both do not fit, the context is truncated.
    size_t cause = strlen(old);
    size_t room = sizeof message - 1 - cause;
    size_t context = strlen(text);
    if (room > 2) {
        context = context < room - 2 ? context : room - 2;
        memcpy(message, text, context);
        memcpy(message + context, ": ", 2);
        memcpy(message + context + 2, old, cause + 1);
    }
    return status;
}

const char *bt_error_message(void) { return message; }

void bt_error_clear(void)
{
    if (!quiet) {
        message[0] = '\0';
    }
}

void bt_error_quiet_begin(void) { ++quiet; }

void bt_error_quiet_end(void)
{
    assert(quiet > 0);
    --quiet;
}

const char *bt_status_text(bt_status status)
{
    static const char *const texts[] = {
#define BT_STATUS_ROW(name, text, exit_code) text,
        BT_STATUS_LIST(BT_STATUS_ROW)
#undef BT_STATUS_ROW
    };
    return (unsigned)status < BT_STATUS_COUNT ? texts[status] : "unknown status";
}

int bt_status_exit_code(bt_status status)
{
    static const int codes[] = {
#define BT_STATUS_ROW(name, text, exit_code) exit_code,
        BT_STATUS_LIST(BT_STATUS_ROW)
#undef BT_STATUS_ROW
    };
    return (unsigned)status < BT_STATUS_COUNT ? codes[status] : 5;
}
