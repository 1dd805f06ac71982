// harness/report/picture.h - lines in a frame with labels: the base of every chart
//
// Lines are SVG paths in a box of 1000 by 300, y downwards, stretched to the available space.
// Labels keep their size: in a page they are HTML, in a separate file SVG text.
#ifndef BT_HARNESS_REPORT_PICTURE_H
#define BT_HARNESS_REPORT_PICTURE_H

#include <stdbool.h>

#include "framework/base/str.h"

// The box, and its position in a file.
enum { PICTURE_W = 1000, PICTURE_H = 300, FILE_LEFT = 80, FILE_TOP = 40, FILE_W = 850 };

typedef struct picture {
    bt_str *out;         // borrowed; paths go here between open and close
    bool file;           // a separate file; otherwise part of a page
    bt_str x, y, inside; // labels, until they are written
} picture;

void bt_picture_open(picture *self);
// A label below the box or left of it; `share`: fraction of the width from the left, of the height
// from below.
void bt_picture_x(picture *self, double share, const char *text);
void bt_picture_y(picture *self, double share, const char *text);
// A name above a line: its text ends at x, y.
void bt_picture_name(picture *self, double x, double y, const char *text);
// Writes the labels, and releases them.
void bt_picture_close(picture *self);

#endif
