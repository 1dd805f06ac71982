// harness/report/page.c - the self-contained page: a frame, its style and scripts, and what is in
// it
//
// page/page.html is the frame of every page; each {{name}} in it is filled in. The page does not
// refer to the network, and its policy forbids it: only the scripts whose digests the policy
// contains may run, so that even incorrectly escaped text could not.
#include <sodium.h>
#include <string.h>

#include "bt_report_page.h" // generated from page/
#include "framework/base/find.h"
#include "framework/base/idioms.h"
#include "framework/base/scoped.h"
#include "harness/report/internal.h"
#include "harness/report/plot.h"
#include "harness/report/report.h"

typedef struct page_script {
    const unsigned char *bytes;
    const size_t *size_bytes;
} page_script;

typedef struct page {
    const char *title;          // text
    const char *body;           // HTML
    const page_script *scripts; // [script_count], in the order in which they run
    int64_t script_count;
} page;

static const page_script report_scripts[] = {{bt_numbers_js, &bt_numbers_js_size},
                                             {bt_curves_js, &bt_curves_js_size},
                                             {bt_tables_js, &bt_tables_js_size},
                                             {bt_page_js, &bt_page_js_size}};
static const page_script index_scripts[] = {{bt_numbers_js, &bt_numbers_js_size},
                                            {bt_tables_js, &bt_tables_js_size},
                                            {bt_index_js, &bt_index_js_size}};

// ---- the frame ---------------------------------------------------------------------------------

// What a page may do: run these scripts.
static void write_policy(const page *self, bt_str *out)
{
    bt_str_append(out, "default-src 'none'; style-src 'unsafe-inline'; img-src data:");
    BT_EACH(const page_script, script, self->scripts, self->script_count) {
        unsigned char digest[crypto_hash_sha256_BYTES];
        char text[sodium_base64_ENCODED_LEN(sizeof digest, sodium_base64_VARIANT_ORIGINAL)];
        crypto_hash_sha256(digest, script->bytes, *script->size_bytes);
        sodium_bin2base64(text, sizeof text, digest, sizeof digest, sodium_base64_VARIANT_ORIGINAL);
        bt_str_format(out, "%s 'sha256-%s'", script == self->scripts ? "; script-src" : "", text);
    }
}

static void write_title(const page *self, bt_str *out) { bt_html_text(out, self->title); }

static void write_style(const page *self, bt_str *out)
{
    (void)self;
    bt_str_append_bytes(out, bt_page_css, bt_page_css_size);
}

static void write_body(const page *self, bt_str *out) { bt_str_append(out, self->body); }

static void write_scripts(const page *self, bt_str *out)
{
    BT_EACH(const page_script, script, self->scripts, self->script_count) {
        bt_str_append(out, "<script>");
        bt_str_append_bytes(out, script->bytes, *script->size_bytes);
        bt_str_append(out, "</script>\n");
    }
}

// In the order of the frame.
static const struct {
    const char *name;
    void (*write)(const page *self, bt_str *out);
} places[] = {{"{{policy}}", write_policy},
              {"{{title}}", write_title},
              {"{{style}}", write_style},
              {"{{body}}", write_body},
              {"{{scripts}}", write_scripts}};

static bt_status write_page(const page *self, bt_str *out)
{
    const char *at = (const char *)bt_page_html; // ends with a zero byte, as all embedded files do
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    for (int64_t i = 0; i < BT_COUNT(places); i++) {
        const char *place = strstr(at, places[i].name);
        BT_FAIL_IF(!place, BT_STATUS_INTERNAL, "page.html: no %s", places[i].name);
        bt_str_append_bytes(out, at, (size_t)(place - at));
        places[i].write(self, out);
        at = place + strlen(places[i].name);
    }
    bt_str_append(out, at);
    return bt_str_status(out);
}

void bt_page_plot_style(bt_str *out)
{
    bt_str_append(out, "<style>");
    bt_str_append_bytes(out, bt_plot_css, bt_plot_css_size);
    bt_str_append(out, "</style>\n");
}

// ---- pages -------------------------------------------------------------------------------------

bt_status bt_report_plain_page(const char *title, const char *body, bt_str *out)
{
    return write_page(&(page){.title = title, .body = body}, out);
}

bt_status bt_page_of_tables(const char *title, const char *body, bt_str *out)
{
    return write_page(&(page){title, body, index_scripts, BT_COUNT(index_scripts)}, out);
}

// The parts of a report, from top to bottom.
static const report_part parts[] = {
    bt_page_head,    bt_page_forest,    bt_page_cases,   bt_page_kernel_cases,
    bt_page_ranks,   bt_page_timelines, bt_page_curves,  bt_page_groups,
    bt_page_ranges,  bt_page_roofline,  bt_page_density, bt_page_trends,
    bt_page_differs, bt_page_facts,     bt_page_tables,  bt_page_data};

bt_status bt_page_write(const report_set *set, bt_str *out)
{
    BT_SCOPED(bt_str) title = {0}, body = {0};
    bt_str_format(&title, "bt-bench %s", set->runs[0].info.suite.name);
    for (int64_t i = 0; i < set->run_count; i++) {
        bt_str_format(&title, "%s%lld", i == 0 ? ", run " : " and ", (long long)set->runs[i].id);
    }
    for (int64_t i = 0; i < BT_COUNT(parts); i++) {
        BT_TRY(parts[i](set, &body));
    }
    BT_TRY(bt_str_status(&title));
    BT_TRY(bt_str_status(&body));
    return write_page(
        &(page){bt_str_text(&title), bt_str_text(&body), report_scripts, BT_COUNT(report_scripts)},
        out);
}

bt_status bt_report_page_digest(char digest[65])
{
    crypto_hash_sha256_state state;
    unsigned char raw[crypto_hash_sha256_BYTES];
    BT_FAIL_IF(sodium_init() < 0, BT_STATUS_INTERNAL, "cannot initialise libsodium");
    (void)crypto_hash_sha256_init(&state);
    (void)crypto_hash_sha256_update(&state, bt_page_html, bt_page_html_size);
    (void)crypto_hash_sha256_update(&state, bt_page_css, bt_page_css_size);
    BT_EACH(const page_script, script, report_scripts, BT_COUNT(report_scripts)) {
        (void)crypto_hash_sha256_update(&state, script->bytes, *script->size_bytes);
    }
    (void)crypto_hash_sha256_final(&state, raw);
    (void)sodium_bin2hex(digest, 65, raw, sizeof raw);
    return BT_OK;
}
