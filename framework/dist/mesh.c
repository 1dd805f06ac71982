#include "framework/dist/mesh.h"

bt_status bt_mesh_check(bt_mesh_degrees *degrees, int ranks)
{
    bt_mesh_degrees d = *degrees;
    d.tensor = d.tensor ? d.tensor : 1;
    d.context = d.context ? d.context : 1;
    const struct {
        const char *key;
        int degree;
    } rows[] = {{"data", d.data}, {"tensor", d.tensor}, {"context", d.context}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (rows[i].degree < 0 || rows[i].degree > BT_GROUP_MAX_SIZE) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "train.mesh.%s is %d, allowed 1 to %d",
                            rows[i].key, rows[i].degree, BT_GROUP_MAX_SIZE);
        }
    }
    const int64_t others = (int64_t)d.tensor * d.context;
    if (d.data == 0 && ranks % others == 0) {
        d.data = (int)(ranks / others);
    }
    if (others * d.data != ranks) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "train.mesh is data %d x tensor %d x context %d, which does not match the "
                        "%d ranks of the run",
                        d.data, d.tensor, d.context, ranks);
    }
    *degrees = d;
    return BT_OK;
}

// The ranks that share `colour`, `degree` of them: none, all, or a part of the world.
static bt_status take_group(bt_group *world, int degree, int colour, bt_group **out)
{
    if (degree == 1) {
        return BT_OK;
    }
    if (degree == world->size) {
        *out = world;
        return BT_OK;
    }
    return bt_group_split(world, colour, world->rank, out);
}

static bt_status take_replicas(bt_mesh *mesh)
{
    const bt_mesh_degrees *d = &mesh->degrees;
    if (d->context == 1 || d->data == 1) {
        mesh->replicas = d->context == 1 ? mesh->data : mesh->context;
        return BT_OK;
    }
    return take_group(mesh->world, d->data * d->context, mesh->at.tensor, &mesh->replicas);
}

bt_status bt_mesh_create(bt_group *world, const bt_mesh_degrees *degrees, bt_mesh *mesh)
{
    *mesh = (bt_mesh){.degrees = *degrees, .world = world};
    bt_mesh_degrees *d = &mesh->degrees, *at = &mesh->at;
    BT_TRY(bt_mesh_check(d, world != NULL ? world->size : 1));
    const int rank = world != NULL ? world->rank : 0;
    at->tensor = rank % d->tensor;
    at->context = rank / d->tensor % d->context;
    at->data = rank / d->tensor / d->context;
    BT_TRY(take_group(world, d->tensor, at->data * d->context + at->context, &mesh->tensor));
    BT_TRY(take_group(world, d->context, at->data * d->tensor + at->tensor, &mesh->context));
    BT_TRY(take_group(world, d->data, at->context * d->tensor + at->tensor, &mesh->data));
    return take_replicas(mesh);
}

static void give_back(const bt_mesh *mesh, bt_group *group)
{
    if (group != mesh->world) {
        bt_group_destroy(group);
    }
}

void bt_mesh_release(bt_mesh *mesh)
{
    if (mesh->replicas != mesh->data && mesh->replicas != mesh->context) {
        give_back(mesh, mesh->replicas);
    }
    give_back(mesh, mesh->data);
    give_back(mesh, mesh->context);
    give_back(mesh, mesh->tensor);
    *mesh = (bt_mesh){0};
}

void bt_mesh_part(int64_t total, int parts, int at, int64_t *first, int64_t *count)
{
    const int64_t each = total / parts, more = total % parts;
    *first = each * at + (at < more ? at : more);
    *count = each + (at < more ? 1 : 0);
}
