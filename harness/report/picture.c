// harness/report/picture.c - lines in a frame, with axes and labels
#include "harness/report/picture.h"

#include <math.h>

#include "harness/text/escape.h"

double bt_axis_share(const picture_axis *on, double value)
{
    return on->logarithmic ? log(value / on->low) / log(on->high / on->low)
                           : (value - on->low) / (on->high - on->low);
}

void bt_picture_to(picture *self, const char *command, double x, double y)
{
    bt_str_format(self->out, "%s%.4g %.4g", command, PICTURE_W * bt_axis_share(&self->x, x),
                  PICTURE_H * (1.0 - bt_axis_share(&self->y, y)));
}

// ---- labels ------------------------------------------------------------------------------------

// x, y: shares of the box, from the left and from below.
static void write_text(bt_str *out, double x, double y, const char *anchor, const char *text)
{
    bt_html(out, "<text class=\"m\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
            FILE_LEFT + FILE_W * x, FILE_TOP + PICTURE_H * (1.0 - y), anchor, text);
}

void bt_picture_x(picture *self, double x, const char *text, bool line)
{
    const double share = bt_axis_share(&self->x, x);
    if (line) {
        bt_str_format(&self->grid, "M%.4g 0v%d", PICTURE_W * share, PICTURE_H);
    }
    if (self->file) {
        write_text(&self->x_labels, share, -18.0 / PICTURE_H, "middle", text);
    } else {
        bt_html(&self->x_labels, "<span style=\"left:%.2f%%\">%s</span>", 100.0 * share, text);
    }
}

void bt_picture_y(picture *self, double y, const char *text, bool line)
{
    const double share = bt_axis_share(&self->y, y);
    if (line) {
        bt_str_format(&self->grid, "M0 %.4gh%d", PICTURE_H * (1.0 - share), PICTURE_W);
    }
    if (self->file) {
        write_text(&self->y_labels, -8.0 / FILE_W, share - 4.0 / PICTURE_H, "end", text);
    } else {
        bt_html(&self->y_labels, "<span style=\"bottom:%.2f%%\">%s</span>", 100.0 * share, text);
    }
}

void bt_picture_name(picture *self, double x, double y, double sunk, const char *text)
{
    const double left = bt_axis_share(&self->x, x), up = bt_axis_share(&self->y, y) - sunk;
    if (self->file) {
        write_text(&self->names, left, up + 4.0 / PICTURE_H, "end", text);
    } else {
        // Positioned by its right end: then it breaks into lines before it crosses the left axis.
        bt_html(&self->names,
                "<span class=line-name style=\"right:%.1f%%;bottom:%.1f%%\">%s</span>",
                100.0 * (1.0 - left), 100.0 * up, text);
    }
}

// ---- the frame ---------------------------------------------------------------------------------

void bt_picture_open(picture *self)
{
    bt_str_append(self->out, "<svg");
    if (self->file) {
        bt_str_format(self->out, " x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", FILE_LEFT,
                      FILE_TOP, FILE_W, PICTURE_H);
    }
    bt_str_format(self->out,
                  " viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
                  "<path class=\"grid\" d=\"%s\"/>",
                  PICTURE_W, PICTURE_H, bt_str_text(&self->grid));
}

void bt_picture_close(picture *self)
{
    bt_str *const kept[] = {&self->names, &self->y_labels, &self->x_labels, &self->grid};
    bt_str_format(self->out,
                  self->file ? "</svg>%s%s%s\n"
                             : "</svg>%s<div class=y aria-hidden=true>%s</div><div class=x "
                               "aria-hidden=true>%s</div>",
                  bt_str_text(kept[0]), bt_str_text(kept[1]), bt_str_text(kept[2]));
    for (int i = 0; i < 4; i++) {
        self->out->status = self->out->status == BT_OK ? kept[i]->status : self->out->status;
        bt_str_release(kept[i]);
    }
}
