// harness/report/page.c - the self-contained page: template, style, script and the parts between
//
// page/page.html is the frame; {{name}} in it is replaced by the part of that name. The page does
// not refer to the network, and its policy forbids it: only the scripts whose digests the policy
// contains may run, so that even incorrectly escaped text could not.
#include <sodium.h>
#include <string.h>

#include "bt_report_page.h" // generated from page/
#include "framework/base/idioms.h"
#include "harness/report/internal.h"
#include "harness/report/plot.h"
#include "harness/report/report.h"

static bt_status write_title(const report_set *set, bt_str *out)
{
    bt_html(out, "bt-bench %s", set->runs[0].info.suite.name);
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_str_format(out, "%s%lld", i == 0 ? ", run " : " and ", (long long)set->runs[i].id);
    }
    return BT_OK;
}

static bt_status write_style(const report_set *set, bt_str *out)
{
    (void)set;
    bt_str_append_bytes(out, bt_page_css, bt_page_css_size);
    return BT_OK;
}

typedef struct page_script {
    const unsigned char *bytes;
    const size_t *size_bytes;
} page_script;

// The scripts in the order in which they run.
static const page_script scripts[] = {{bt_numbers_js, &bt_numbers_js_size},
                                      {bt_curves_js, &bt_curves_js_size},
                                      {bt_tables_js, &bt_tables_js_size},
                                      {bt_page_js, &bt_page_js_size}};

enum { SCRIPT_COUNT = (int)(sizeof scripts / sizeof scripts[0]) };

static void append_scripts(const page_script *items, int count, bt_str *out)
{
    BT_EACH(const page_script, script, items, count) {
        bt_str_append(out, "<script>");
        bt_str_append_bytes(out, script->bytes, *script->size_bytes);
        bt_str_append(out, "</script>\n");
    }
}

static bt_status write_scripts(const report_set *set, bt_str *out)
{
    (void)set;
    append_scripts(scripts, SCRIPT_COUNT, out);
    return BT_OK;
}

// What a page may do: run these scripts.
static void append_policy(const page_script *items, int count, bt_str *out)
{
    bt_str_append(out, "default-src 'none'; style-src 'unsafe-inline'; img-src data:");
    BT_EACH(const page_script, script, items, count) {
        unsigned char digest[crypto_hash_sha256_BYTES];
        char text[sodium_base64_ENCODED_LEN(sizeof digest, sodium_base64_VARIANT_ORIGINAL)];
        crypto_hash_sha256(digest, script->bytes, *script->size_bytes);
        sodium_bin2base64(text, sizeof text, digest, sizeof digest, sodium_base64_VARIANT_ORIGINAL);
        bt_str_format(out, "%s 'sha256-%s'", script == items ? "; script-src" : "", text);
    }
}

static bt_status write_policy(const report_set *set, bt_str *out)
{
    (void)set;
    append_policy(scripts, SCRIPT_COUNT, out);
    return BT_OK;
}

static const struct {
    const char *name;
    report_part write;
} parts[] = {
    {"title", write_title},           {"policy", write_policy},
    {"style", write_style},           {"head", bt_page_head},
    {"forest", bt_page_forest},       {"cases", bt_page_cases},
    {"trends", bt_page_trends},       {"kernel_cases", bt_page_kernel_cases},
    {"roofline", bt_page_roofline},   {"curves", bt_page_curves},
    {"density", bt_page_density},     {"ranges", bt_page_ranges},
    {"differs", bt_page_differs},     {"facts", bt_page_facts},
    {"tables", bt_page_tables},       {"data", bt_page_data},
    {"scripts", write_scripts},       {"ranks", bt_page_ranks},
    {"timelines", bt_page_timelines}, {"groups", bt_page_groups},
};

static bt_status write_part(const report_set *set, const char *name, size_t length, bt_str *out)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strlen(parts[i].name) == length && memcmp(parts[i].name, name, length) == 0) {
            return parts[i].write(set, out);
        }
    }
    return bt_error(BT_STATUS_INTERNAL, "page.html: no part {{%.*s}}", (int)length, name);
}

bt_status bt_page_write(const report_set *set, bt_str *out)
{
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    const char *at = (const char *)bt_page_html; // ends with a zero byte, as all embedded files do
    for (;;) {
        const char *open = strstr(at, "{{");
        const char *close = open ? strstr(open, "}}") : NULL;
        if (!close) {
            bt_str_append(out, at);
            return bt_str_status(out);
        }
        bt_str_append_bytes(out, at, (size_t)(open - at));
        BT_TRY(write_part(set, open + 2, (size_t)(close - open - 2), out));
        at = close + 2;
    }
}

// A page without the frame of a report, up to the end of its style. `links`: between the others.
static void open_page(const char *title, const char *links, const page_script *items, int count,
                      bt_str *out)
{
    bt_str_append(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"");
    append_policy(items, count, out);
    bt_str_append(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, "
                       "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    bt_str_append(out, links);
    bt_html(out, "<title>%s</title>\n<style>", title);
    bt_str_append_bytes(out, bt_page_css, bt_page_css_size);
}

static bt_status close_page(const char *body, const page_script *items, int count, bt_str *out)
{
    bt_str_format(out,
                  "</style>\n</head>\n<body>\n<main>\n%s</main>\n<footer>Made by bt-bench; this "
                  "file is complete and needs no network.</footer>\n",
                  body);
    append_scripts(items, count, out);
    bt_str_append(out, "</body>\n</html>\n");
    return bt_str_status(out);
}

bt_status bt_report_plain_page(const char *title, const char *body, bt_str *out)
{
    open_page(title, "", NULL, 0, out);
    bt_str_append(out, "main>svg{max-width:100%;height:auto}");
    return close_page(body, NULL, 0, out);
}

bt_status bt_report_page_digest(char digest[65])
{
    crypto_hash_sha256_state state;
    unsigned char raw[crypto_hash_sha256_BYTES];
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    (void)crypto_hash_sha256_init(&state);
    (void)crypto_hash_sha256_update(&state, bt_page_html, bt_page_html_size);
    (void)crypto_hash_sha256_update(&state, bt_page_css, bt_page_css_size);
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        (void)crypto_hash_sha256_update(&state, scripts[i].bytes, *scripts[i].size_bytes);
    }
    (void)crypto_hash_sha256_final(&state, raw);
    (void)sodium_bin2hex(digest, 65, raw, sizeof raw);
    return BT_OK;
}

bt_status bt_page_of_tables(const char *title, const char *body, bt_str *out)
{
    static const page_script needed[] = {{bt_numbers_js, &bt_numbers_js_size},
                                         {bt_tables_js, &bt_tables_js_size},
                                         {bt_index_js, &bt_index_js_size}};
    enum { NEEDED = (int)(sizeof needed / sizeof needed[0]) };
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    open_page(title, "<link rel=\"icon\" href=\"data:,\">\n", needed, NEEDED, out);
    return close_page(body, needed, NEEDED, out);
}
