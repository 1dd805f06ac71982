// framework/base/status.h - what a fallible call returns, and the message that goes with it
//
// Every fallible function returns bt_status; BT_OK is zero. The message of the last failure of a
// thread is in a fixed thread-local buffer, so that reporting works without memory. The function
// that fails sets it with bt_error(); its callers may add context with bt_error_context().
// Libraries never print and never exit: the caller decides.
//
// Invariants
//   1. bt_error() returns the status it was given, never BT_OK.
//   2. bt_error_message() is valid until the next bt_error() or bt_error_clear() of this thread.
#ifndef BT_BASE_STATUS_H
#define BT_BASE_STATUS_H

#include <stdarg.h>

#if defined(BT_ASSERTS) && defined(NDEBUG)
#error "NDEBUG is defined in a build that promises asserts (BT_ASSERTS=ON)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

// X(enumerator, text, process exit code). The text precedes the message.
#define BT_STATUS_LIST(X)                                                                          \
    X(OK, "ok", 0)                                                                                 \
    X(INVALID_ARGUMENT, "invalid argument", 2)                                                     \
    X(UNSUPPORTED, "unsupported", 2)                                                               \
    X(UNAVAILABLE, "unavailable", 4)                                                               \
    X(OUT_OF_MEMORY, "out of memory", 5)                                                           \
    X(IO, "input/output error", 4)                                                                 \
    X(CORRUPT_DATA, "corrupt data", 5)                                                             \
    X(INTERRUPTED, "interrupted", 130)                                                             \
    X(INTERNAL, "internal error", 5)

typedef enum bt_status {
#define BT_STATUS_ENUM(name, text, exit_code) BT_STATUS_##name,
    BT_STATUS_LIST(BT_STATUS_ENUM)
#undef BT_STATUS_ENUM
        BT_STATUS_COUNT
} bt_status;

#define BT_OK BT_STATUS_OK

#if defined(__GNUC__)
#define BT_CHECKED __attribute__((warn_unused_result))
#define BT_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))
#else
#define BT_CHECKED
#define BT_PRINTF(format_index, first_index)
#endif

// Evaluates a bt_status expression and returns it from the enclosing function unless it is BT_OK.
#define BT_TRY(expression)                                                                         \
    do {                                                                                           \
        bt_status bt_try_status = (expression);                                                    \
        if (bt_try_status != BT_OK) {                                                              \
            return bt_try_status;                                                                  \
        }                                                                                          \
    } while (0)

// The same, but jumps to `label` with the status in the local variable `status`.
#define BT_TRY_GOTO(expression, label)                                                             \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (status != BT_OK) {                                                                     \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

// Sets this thread's message (truncated at BT_ERROR_CAPACITY) and returns `status`.
bt_status bt_error(bt_status status, const char *format, ...) BT_PRINTF(2, 3);
// Prepends "text: " to this thread's message; returns `status` unchanged. No effect on BT_OK.
bt_status bt_error_context(bt_status status, const char *format, ...) BT_PRINTF(2, 3);
// The message of this thread's last failure; "" when there was none. Never NULL.
const char *bt_error_message(void);
void bt_error_clear(void);
// Between these calls, which nest, bt_error, bt_error_context and bt_error_clear do not change this
// thread's message. For clean-up after a failure, whose message must be kept, and for attempts
// whose failure is not reported.
void bt_error_quiet_begin(void);
void bt_error_quiet_end(void);

// The text of a status, such as "out of memory". Never NULL.
const char *bt_status_text(bt_status status);
// The process exit code for a status (METHOD: 2 usage, 4 environment, 5 crash, 130 interrupted).
int bt_status_exit_code(bt_status status);

#define BT_ERROR_CAPACITY 2048

// States invariant 1 for the static analyzer, which sees only this file.
#if defined(__clang_analyzer__)
#define bt_error(status, ...)         (bt_error((status), __VA_ARGS__), (status))
#define bt_error_context(status, ...) (bt_error_context((status), __VA_ARGS__), (status))
#endif

#ifdef __cplusplus
}
#endif

// Evaluates a bt_status expression into the variable `status` unless that holds a failure already:
// for steps before a release that must run whatever happens.
#define BT_IF_OK(status, expression)                                                               \
    do {                                                                                           \
        if ((status) == BT_OK) {                                                                   \
            (status) = (expression);                                                               \
        }                                                                                          \
    } while (0)

#endif
