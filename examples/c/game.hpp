// The little of a game that a pipeline cache needs: a device, a cache, pipelines, and what libtowpath asks for.
#ifndef TOWPATH_EXAMPLE_GAME_HPP
#define TOWPATH_EXAMPLE_GAME_HPP

#include "common.h"

#include <string>

#include <vulkan/vulkan.h>

#define VK(call) CHECK((call) == VK_SUCCESS)

struct Game {
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipelineCache cache = VK_NULL_HANDLE;
    int sizes_asked = 0, blobs_fetched = 0;

    Game()
    {
        VkApplicationInfo application = {};
        application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        // The first that tells which driver it is: a cache belongs to one.
        application.apiVersion = VK_API_VERSION_1_1;
        VkInstanceCreateInfo plain = {};
        plain.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        plain.pApplicationInfo = &application;
        VK(vkCreateInstance(&plain, nullptr, &instance));
        uint32_t one = 1;
        VkResult found = vkEnumeratePhysicalDevices(instance, &one, &physical);
        CHECK((found == VK_SUCCESS || found == VK_INCOMPLETE) && one == 1);
        float priority = 1.0f;
        VkDeviceQueueCreateInfo queue = {};
        queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queue.queueCount = 1;
        queue.pQueuePriorities = &priority;
        VkDeviceCreateInfo create = {};
        create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        create.queueCreateInfoCount = 1;
        create.pQueueCreateInfos = &queue;
        VK(vkCreateDevice(physical, &create, nullptr, &device));
        VkPipelineLayoutCreateInfo empty = {};
        empty.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        VK(vkCreatePipelineLayout(device, &empty, nullptr, &layout));
        restart(nullptr, 0);
    }

    ~Game()
    {
        vkDestroyPipelineCache(device, cache, nullptr);
        vkDestroyPipelineLayout(device, layout, nullptr);
        vkDestroyDevice(device, nullptr);
        vkDestroyInstance(instance, nullptr);
    }

    // A start with what the file held.
    void restart(const void *data, size_t bytes)
    {
        vkDestroyPipelineCache(device, cache, nullptr);
        VkPipelineCacheCreateInfo create = {};
        create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
        create.initialDataSize = bytes;
        create.pInitialData = data;
        VK(vkCreatePipelineCache(device, &create, nullptr, &cache));
    }

    // A pipeline that does nothing, in work groups of `size`.
    void compile(uint32_t size)
    {
        const uint32_t code[] = { 0x07230203, 0x10000, 0, 5, 0, 0x20011, 1, 0x3000e, 0, 1, 0x5000f, 5, 1,
                                  0x6e69616d, 0, 0x60010, 1, 17, size, 1, 1, 0x20013, 2, 0x30021, 3, 2,
                                  0x50036, 2, 1, 0, 3, 0x200f8, 4, 0x100fd, 0x10038 };
        VkShaderModuleCreateInfo shader = {};
        shader.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
        shader.codeSize = sizeof code;
        shader.pCode = code;
        VkComputePipelineCreateInfo create = {};
        create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
        create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
        create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
        create.stage.pName = "main";
        create.layout = layout;
        VK(vkCreateShaderModule(device, &shader, nullptr, &create.stage.module));
        VkPipeline pipeline;
        VK(vkCreateComputePipelines(device, cache, 1, &create, nullptr, &pipeline));
        vkDestroyPipeline(device, pipeline, nullptr);
        vkDestroyShaderModule(device, create.stage.module, nullptr);
    }

    // The three lines that libtowpath asks for.
    static int32_t source(void *context, size_t *bytes, void *data)
    {
        auto *game = static_cast<Game *>(context);
        (data ? game->blobs_fetched : game->sizes_asked)++;
        VkResult result = vkGetPipelineCacheData(game->device, game->cache, bytes, data);
        return result == VK_SUCCESS ? 0 : result == VK_INCOMPLETE ? 1 : -1;
    }

    std::string data() const
    {
        size_t bytes = 0;
        VK(vkGetPipelineCacheData(device, cache, &bytes, nullptr));
        std::string data(bytes, '\0');
        VK(vkGetPipelineCacheData(device, cache, &bytes, data.data()));
        return data;
    }
};

#endif
