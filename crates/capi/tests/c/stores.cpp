// Two stores in one process: the Vulkan layer's, for pipelines without a cache, and the library's, for those of the
// program's own cache. Under takeover the layer has both kinds, and the library is left with nothing.
//
//   stores FOLDER first|second fill|takeover
#include "game.hpp"

#include <cstring>
#include <string>

enum { WITHOUT = 5, OWN = 7 };

static tp_cache_identity identity_of(const Game &game)
{
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(game.physical, &properties);
    tp_cache_identity identity = {};
    identity.vendor = properties.vendorID;
    identity.device = properties.deviceID;
    identity.driver_version = properties.driverVersion;
    std::memcpy(identity.cache_uuid, properties.pipelineCacheUUID, sizeof identity.cache_uuid);
    return identity;
}

static size_t blobs_into(const tp_cache *store, Game &game)
{
    const void *data;
    size_t bytes, count = 0;
    for (; tp_cache_blob(store, count, &data, &bytes) == TP_OK; count++)
        game.restart(data, bytes);
    return count;
}

int main(int count, char **words)
{
    CHECK(count == 4);
    bool is_first = std::string(words[2]) == "first", is_fill = std::string(words[3]) == "fill";
    Game game;
    const tp_cache_identity identity = identity_of(game);
    tp_cache *store = nullptr;
    tp_save_report report = {};
    MUST(tp_cache_open(words[1], &identity, 0, nullptr, &store));
    CHECK(blobs_into(store, game) == (is_first || !is_fill ? 0 : 1));
    for (uint32_t size = 1; size <= OWN; size++)
        game.compile(size);
    if (is_first)
        MUST(tp_cache_note_created(store, OWN));
    MUST(tp_cache_save(store, Game::source, &game, 0, &report));
    tp_saved saved = is_fill ? TP_SAVED_WRITTEN : TP_SAVED_NOTHING;
    CHECK(report.outcome == (is_first ? saved : TP_SAVED_UNCHANGED));
    vkDestroyPipelineCache(game.device, game.cache, nullptr);
    game.cache = VK_NULL_HANDLE;
    for (uint32_t size = 101; size < 101 + WITHOUT; size++)
        game.compile(size);
    MUST(tp_cache_free(store));
    std::puts("ok");
}
